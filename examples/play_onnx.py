"""Plays an exported policy, without acer: python play_onnx.py cartpole.onnx CartPole-v1"""

import sys

import gymnasium as gym
import numpy as np
import onnxruntime

policy = onnxruntime.InferenceSession(sys.argv[1])
env = gym.make(sys.argv[2])
observation, _ = env.reset(seed=0)
score, ended = 0.0, False
while not ended:
    actions, _ = policy.run(None, {"observation": np.asarray(observation)[None]})
    observation, reward, terminated, truncated, _ = env.step(actions[0])
    score += float(reward)
    ended = terminated or truncated
print(score)

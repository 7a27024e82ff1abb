// The search runs in a worker. A browser gives none to a page that was opened from disk; there the search runs in a
// hidden frame that is spoken to like a worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<!doctype html><title>search</title>"
      frame.addEventListener("load", () => {
        const inside = frame.contentWindow
        inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
        const element = frame.contentDocument.createElement("script")
        element.src = script
        element.addEventListener("load", () => {
          this.postMessage = data => inside.dispatchEvent(new MessageEvent("message", { data }))
          this.waiting.forEach(this.postMessage)
        })
        frame.contentDocument.head.append(element)
      }, { once: true })
      document.documentElement.append(frame)
    }

    postMessage(data) {
      this.waiting.push(data)
    }
  }
}

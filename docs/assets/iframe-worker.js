// Where a page is opened as a file, browsers start no workers: the site's search then runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inner = frame.contentWindow;
      inner.document.open();
      inner.document.write(
        "<body><script>self.postMessage = (data) => parent.postMessage(data, '*');" +
          "self.importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise((ready) => {" +
          "const one = document.createElement('script'); one.src = url; one.onload = ready;" +
          "document.body.appendChild(one); })), Promise.resolve());<\/script>" +
          `<script src="${url}"><\/script></body>`
      );
      inner.document.close();
      this.loaded = new Promise((ready) => (frame.onload = ready));
      this.frame = frame;
      this.receive = (event) => {
        if (event.source !== inner) return;
        event.stopImmediatePropagation();
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      window.addEventListener("message", this.receive);
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      window.removeEventListener("message", this.receive);
      this.frame.remove();
    }
  };
}

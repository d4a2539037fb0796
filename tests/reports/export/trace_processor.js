// Feeds requests to Perfetto's own trace processor, as its UI ships it (WebAssembly), and writes down its replies:
//   node trace_processor.js ENGINE_BUNDLE REQUESTS REPLIES
// The engine is made for a web worker: this is as much of one as it needs. What is asked are messages of TraceProcessorRpcStream.
const fs = require("fs"), path = require("path"), vm = require("vm");
const [engine, requests, replies] = process.argv.slice(2);

globalThis.self = globalThis;
globalThis.WorkerGlobalScope = Object;
globalThis.importScripts = () => {};
self.location = { href: "file://" + engine };
self.XMLHttpRequest = class {
  open(method, url) { this.file = path.join(path.dirname(engine), path.basename(url)); }
  send() { this.status = 200; this.response = new Uint8Array(fs.readFileSync(this.file)).buffer; }
};
Object.defineProperty(process, "type", { value: "renderer" });
vm.runInThisContext(fs.readFileSync(engine, "utf8"), engine);

const out = fs.openSync(replies, "w");
const port = { postMessage: (data) => fs.writeSync(out, data) };
self.onmessage({ data: port });
setTimeout(() => port.onmessage({ data: new Uint8Array(fs.readFileSync(requests)) }), 200);

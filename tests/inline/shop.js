// A little shop as customers build them: streamed pages, a form, an API, events, a WebSocket that echoes.
const http = require('http');
const crypto = require('crypto');

const PAGE = `<!doctype html><title>Shop</title><h1>The shop</h1>
<form method="post" action="/order"><button>Order</button></form>
<script>
const cart = async () => {
  const r = await fetch('/api/cart');
  if (r.status === 503 && r.headers.get('X-QM-Queued')) { location.reload(); return 'queued'; }
  return r.text();
};
const echo = text => new Promise((done, failed) => {
  const socket = new WebSocket('ws://' + location.host + '/socket');
  socket.onopen = () => socket.send(text);
  socket.onmessage = event => { done(event.data); socket.close(); };
  socket.onerror = failed;
});
const events = () => new Promise(done => {
  const got = [];
  const source = new EventSource('/feed');
  source.onmessage = event => { got.push(event.data); if (got.length === 3) { source.close(); done(got.join()); } };
});
</script>`;

const server = http.createServer(async (request, answer) => {
  if (request.url === '/api/cart') return answer.end('full');
  if (request.url === '/feed') {
    answer.setHeader('Content-Type', 'text/event-stream');
    for (const word of ['one', 'two', 'three']) {
      answer.write(`data: ${word}\n\n`);
      await new Promise(done => setTimeout(done, 50));
    }
    return answer.end();
  }
  if (request.url === '/upload') {
    const hash = crypto.createHash('sha256');
    for await (const part of request) hash.update(part);
    return answer.end(hash.digest('hex'));
  }
  if (request.url.startsWith('/download')) {
    const size = +request.url.split('?')[1];
    answer.setHeader('Content-Length', size);
    const piece = Buffer.alloc(1 << 20, 'q');
    for (let left = size; left > 0; left -= piece.length) {
      if (!answer.write(left < piece.length ? piece.subarray(0, left) : piece))
        await new Promise(done => answer.once('drain', done));
    }
    return answer.end();
  }
  answer.setHeader('Content-Type', 'text/html');
  answer.setHeader('X-Method', request.method);
  answer.write('<!-- shell -->');
  answer.end(request.method === 'POST' ? '<h1>Ordered</h1>' : PAGE);
});

server.on('upgrade', (request, socket) => {
  const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = crypto.createHash('sha1').update(key).digest('base64');
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  socket.on('data', frame => {
    if ((frame[0] & 15) === 8) return socket.end();
    const length = frame[1] & 127; // short texts only
    const mask = frame.subarray(2, 6);
    const text = frame.subarray(6, 6 + length).map((byte, index) => byte ^ mask[index % 4]);
    socket.write(Buffer.concat([Buffer.from([0x81, length]), text]));
  });
  socket.on('error', () => {});
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));

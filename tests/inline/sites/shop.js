// A little shop as customers build them: streamed pages, a form, an API, events, files, a WebSocket that echoes.
const crypto = require('crypto');
const fs = require('fs');
const os = require('os');
const path = require('path');
const express = require('express');
const { WebSocketServer } = require('ws');

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

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'qm-shop-'));
const FILM = path.join(folder, 'film.bin');
fs.writeFileSync(FILM, crypto.createHash('sha512').update('film').digest().toString('hex').repeat(2048)); // 256 KiB
process.on('SIGTERM', () => { fs.rmSync(folder, { recursive: true }); process.exit(); });

const shop = express();
shop.get('/api/cart', (request, answer) => answer.end('full'));
shop.get('/feed', async (request, answer) => {
  answer.setHeader('Content-Type', 'text/event-stream');
  for (const word of ['one', 'two', 'three']) {
    answer.write(`data: ${word}\n\n`);
    await new Promise(done => setTimeout(done, 50));
  }
  answer.end();
});
shop.post('/upload', async (request, answer) => {
  const hash = crypto.createHash('sha256');
  for await (const part of request) hash.update(part);
  answer.end(hash.digest('hex'));
});
shop.get('/download', async (request, answer) => {
  const size = +request.url.split('?')[1];
  answer.setHeader('Content-Length', size);
  const piece = Buffer.alloc(1 << 20, 'q');
  for (let left = size; left > 0; left -= piece.length) {
    if (!answer.write(left < piece.length ? piece.subarray(0, left) : piece))
      await new Promise(done => answer.once('drain', done));
  }
  answer.end();
});
shop.get('/film', (request, answer) => answer.sendFile(FILM));

// A page whose shell is there at once and whose data comes when somebody has seen the shell.
let seen;
const shell = new Promise(done => { seen = done; });
shop.get('/streamed', async (request, answer) => {
  answer.setHeader('Content-Type', 'text/html');
  answer.write('<!doctype html><h1>Shelf</h1><p>Loading</p>');
  await shell;
  answer.end('<template>3 left</template>');
});
shop.post('/seen', (request, answer) => { seen(); answer.end(); });

shop.use((request, answer) => {
  answer.setHeader('Content-Type', 'text/html');
  answer.end(request.method === 'POST' ? '<h1>Ordered</h1>' : PAGE);
});

const server = shop.listen(0, '127.0.0.1', () => console.log(server.address().port));
const sockets = new WebSocketServer({ server, path: '/socket', perMessageDeflate: { threshold: 0 } });
sockets.on('connection', socket => {
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
});

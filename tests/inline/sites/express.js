// A site on Express, whose routes are blind to case and to a slash at the end, and whose parameters are decoded.
const express = require('express');

const decoded = path => { try { return decodeURIComponent(path); } catch { return path; } };
const took = (request, answer, path) =>
  answer.set('X-Took', `${encodeURIComponent(path)} ${request.method}`).end(request.method === 'HEAD' ? '' : 'ok');

const app = express();
app.all(['/checkout', '/checkout/*rest'], (request, answer) => took(request, answer, '/checkout'));
app.use((request, answer) => took(request, answer, decoded(request.path)));
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port));

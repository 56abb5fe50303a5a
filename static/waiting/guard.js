// The one inline script: colours before the first paint, and a page that heals itself when its files are missing.
// It must not depend on any file, so it is inlined; its hash stands in the page's Content-Security-Policy.
(d => {
  const keep = (key, store) => { try { return store()[key]; } catch { return undefined; } };
  const theme = keep('qm_theme', () => localStorage);
  d.dataset.theme = theme || (matchMedia('(prefers-color-scheme:dark)').matches ? 'dark' : 'light');
  // Style or script did not load: reload after 3–8 s, so that not everybody comes back in the same second.
  addEventListener('error', event => {
    if (!/^(LINK|SCRIPT)$/.test(event.target.nodeName) || event.target.rel === 'icon') return;
    const tries = +new URLSearchParams(location.hash.slice(1)).get('retry') || 0;
    setTimeout(() => {
      if (tries > 2) return location.replace('/w/' + d.dataset.room + '/plain');
      location.hash = 'retry=' + (tries + 1);
      location.reload();
    }, 3000 + Math.random() * 5000);
  }, true);
})(document.documentElement);

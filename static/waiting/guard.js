// The one inline script: colours before the first paint, and a page that heals itself when its files are missing.
// It must not depend on any file, so it is inlined; its hash stands in the page's Content-Security-Policy.
(d => {
  d.dataset.theme = matchMedia('(prefers-color-scheme:dark)').matches ? 'dark' : 'light';
  try {
    d.dataset.theme = localStorage.qm_theme || d.dataset.theme;
  } catch {
    // Storage is blocked: the system's scheme stays.
  }
  // Style or script did not load: reload after 3–8 s, so that not everybody comes back in the same second; the fourth
  // time the page that needs neither takes over.
  addEventListener('error', event => {
    const tries = +location.hash.slice(7) || 0;
    if (!/SCRIPT|stylesheet/.test(event.target.nodeName + event.target.rel)) return;
    setTimeout(() => {
      if (tries > 2) return location.replace(d.dataset.plain);
      location.hash = '#retry=' + (tries + 1);
      location.reload();
    }, 3000 + Math.random() * 5000);
  }, true);
})(document.documentElement);

// A button on each block of code that copies it. Without script the text can be selected and copied as it stands.
(() => {
  const { copy, copied } = document.body.dataset;

  for (const block of document.querySelectorAll('pre')) {
    const button = document.createElement('button');
    const text = block.textContent;
    button.type = 'button';
    button.className = 'copy';
    button.textContent = copy;
    button.addEventListener('click', () => {
      getSelection().selectAllChildren(block.firstElementChild);
      document.execCommand('copy');
      getSelection().removeAllRanges();
      button.textContent = copied;
      setTimeout(() => { button.textContent = copy; }, 2000);
    });
    if (text.trim()) block.append(button);
  }

  // Where there is room for the contents they are there without being asked for.
  if (matchMedia('(min-width: 64rem)').matches) document.querySelector('details').open = true;
})();

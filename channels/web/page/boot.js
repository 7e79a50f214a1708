// Before the first paint: the chosen appearance, so that a dark page doesn't flash white. A classic script for that reason.
try {
  const theme = JSON.parse(localStorage.getItem('lanekeeper.theme'));
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the system's appearance it is.
}

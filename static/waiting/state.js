// What the page knows, and how an answer changes it. Pure: no document, no clock, no storage.

export const NEAR = 8;

const SCREENS = {
  waiting: 'line', paused: 'line', scheduled: 'line', passed: 'turn', at_capacity: 'full', active: 'go', bypass: 'go',
};

/** `began`: when the page was opened; `name`: of the room; `past`: what was remembered of an earlier load. Times in epoch ms of this device. */
export const initial = (began, name, past) => ({
  name,
  screen: 'line', began, at: began, skew: 0, view: null, lost: null, retryAt: 0, loop: false,
  ticket: past.ticket, first: past.first, notice: past.notice,
});

/** A place: the first number seen with this ticket is where its line starts. */
const place = (model, view) =>
  view.ticket === model.ticket
    ? { first: model.first || view.position }
    : { ticket: view.ticket, first: view.position };

const answer = (model, { view, at, notice }) => {
  // A state of a later build, or a late or doubled frame, by the server's own time (PAG-141).
  if (!SCREENS[view.state] || (model.view && view.now < model.view.now)) return model;
  return {
    ...model, ...place(model, view), name: view.name, view, at, skew: view.now - at, lost: null,
    screen: view.preQueued ? 'doors' : SCREENS[view.state], notice: notice || model.notice,
  };
};

/** The next model. Events: answer, lost, refused, left, cookies, noRoom, loop, dismissed, restart. */
export const reduce = (model, event) => {
  switch (event.type) {
    case 'answer': return answer(model, event);
    case 'lost': return { ...model, lost: event.offline ? 'offline' : 'lost', retryAt: event.retryAt };
    case 'refused': return { ...model, screen: event.screen, view: null, lost: null, retryAt: event.retryAt };
    case 'loop': return { ...model, loop: true };
    case 'dismissed': return { ...model, notice: null };
    case 'restart': return initial(event.at, model.name, {});
    default: return { ...model, screen: event.type, view: null, lost: null };
  }
};

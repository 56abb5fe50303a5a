-- Threshold activation (ENG-213 ... ENG-217): since when the condition of the next switch has held. Every call that
-- begins a new second looks, so no second is missed while any instance ticks, whoever is the leader.

-- Notes at the end of a second (`second`: the one that begins) what joins/min was at that moment.
function qm.auto_watch(h, joins, second)
  local holds, state = false, qm.state_of(h)
  if state == qm.S.BYPASS then
    holds = joins >= h.auto_joins
  elseif state == qm.S.ACTIVE then
    holds = joins < h.auto_joins -- nobody waiting: qm.auto_disturb
  end
  if not holds then
    h.auto_since = 0
  elseif h.auto_since == 0 then
    h.auto_since = second * 1000
  end
end

-- Quiet ends as soon as somebody waits, be it for less than a second (ENG-214).
function qm.auto_disturb(h)
  if h.state == qm.S.ACTIVE and qm.waiting(h) > 0 then h.auto_since = 0 end
end

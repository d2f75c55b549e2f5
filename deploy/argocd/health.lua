-- Computes the health of a TrainingJob for Argo CD, from the conditions that kstatus also reads.
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "the operator has not seen this generation yet"}
end
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  if condition.status == "True" then conditions[condition.type] = condition end
end
if conditions.Stalled then return {status = "Degraded", message = conditions.Stalled.message} end
if conditions.Reconciling then return {status = "Progressing", message = conditions.Reconciling.message} end
if conditions.Suspended then return {status = "Suspended", message = conditions.Suspended.message} end
return {status = "Healthy", message = (status.state or "") .. ": " .. (status.reason or "")}

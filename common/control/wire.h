#pragma once

// JSON fields (common/json/fields.h) of the values in membership.h. It includes the JSON library,
// so only this folder's codecs use it. README.md, "Versions", lists which fields may be missing.

#include "common/control/membership.h"
#include "common/json/fields.h"
#include "common/json/forms.h"

namespace ringmaster::control {

void Describe(auto& a, Is<Epoch> auto& v) {
  a.Field("term", v.term);
  a.Field("number", v.number);
}

void Describe(auto& a, Is<CheckpointReport> auto& v) {
  a.Field("epoch", v.epoch);
  a.Field("step", v.step);
  a.Optional("ageMillis", v.age_millis);
  a.Optional("bytes", v.bytes);
}

void Describe(auto& a, Is<Beginning> auto& v) {
  a.Optional("step", v.step);
  a.Optional("message", v.message);
}

void Describe(auto& a, Is<OutOfMemory> auto& v) {
  a.Optional("limitBytes", v.limit_bytes);
  a.Optional("peakBytes", v.peak_bytes);
}

void Describe(auto& a, Is<RankExit> auto& v) {
  a.Field("rank", v.rank);
  a.Field("podUid", v.pod_uid);
  a.Optional("pod", v.pod);
  a.Optional("node", v.node);
  a.Field("slot", v.slot);
  a.Field("start", v.start);
  a.Field("exitCode", v.exit_code);
  a.Field("signal", v.signal);
  a.Optional("lastLines", v.last_lines);
  a.Optional("stack", v.stack);
  a.Optional("outOfMemory", v.out_of_memory);
}

void Describe(auto& a, Is<RankPosition> auto& v) {
  a.Field("rank", v.rank);
  a.Field("slot", v.slot);
  a.Field("entered", v.entered);
  a.Optional("stopped", v.stopped);
  a.Field("step", v.step);
  a.Optional("bucket", v.bucket);
  // A phase that only newer ranks report is read as a phase that never counts as a hang.
  a.Field("phase", v.phase, AsWord(kRankPhaseNames, RankPhase::kEvaluate));
  a.Optional("peer", v.peer);
  a.Field("stillMillis", v.still_millis);
  a.Optional("stepMicros", v.step_micros);
  a.Optional("ownMicros", v.own_micros);
  a.Optional("appliedMillis", v.applied_millis);
  a.Sparse("launched", v.collectives.launched, -1);
  a.Sparse("begun", v.collectives.begun, -1);
  a.Sparse("collective", v.collectives.kind, CollectiveKind::kNone,
           AsWord(kCollectiveNames, CollectiveKind::kNone));
}

void Describe(auto& a, Is<Progress> auto& v) {
  a.Field("step", v.step);
  a.Optional("totalSteps", v.total_steps);
  a.Optional("samplesPerSecond", v.samples_per_second);
  a.Field("loss", v.loss);
  a.Optional("accuracy", v.accuracy);
}

void Describe(auto& a, Is<PreflightFault> auto& v) {
  a.Field("check", v.check);
  a.Field("message", v.message);
}

}  // namespace ringmaster::control

#include "worker/agent/slots/elastic_slots.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/base/log.h"
#include "common/control/exit_codes.h"

namespace ringmaster::agent {
namespace {

constexpr std::size_t kMostUnprotected = 8;  // maximum number of failing protections of a slot

// Advice to the author of a program that never sent a hello.
std::string HowToJoin(const SlotsOptions& options) {
  if (options.own_program) return "";
  return ": in mode InPlace a program calls ringmaster.join() (Python) or "
         "ringmaster::Elastic::Start() (C++); for other programs set spec.elasticity.mode to "
         "Restart";
}

// Advice to the author of a program that ended during training.
std::string HowToEndEarly(const SlotsOptions& options) {
  if (options.own_program) return "";
  return ": a Python script that ends training early must leave its loop at the same step on every "
         "rank and call job.finish() until it returns True";
}

// Returns the exit to report to an attach whose rank ended as requested. The code is 0, because
// mpirun ends all other ranks after any other code.
control::RankExit AsAsked() {
  control::RankExit exit;
  exit.exit_code = 0;
  return exit;
}

}  // namespace

ElasticSlots::ElasticSlots(const SlotsOptions& options, SlotActions* actions)
    : Slots(options, actions) {
  for (int slot = 0; slot < options.slots; ++slot) {
    slots_.emplace_back(SlotOutput(slot, options.pod, actions));
  }
}

void ElasticSlots::Preload() {
  for (int slot = 0; slot < options_.slots; ++slot) StartFresh(slot);
}

void ElasticSlots::OnLauncherDrained() {
  for (int slot = 0; slot < options_.slots; ++slot) Route(slot);
}

void ElasticSlots::OnRankHello(int index) {
  if (!ValidSlot(index)) return;
  Slot& slot = At(index);
  slot.connected = true;
  // Forget the exit of an earlier process that was not in a world.
  if (slot.exit_report.has_value() && slot.exit_report->exit.rank < 0) slot.exit_report.reset();
  actions_->SendToLauncher(control::RankReady{index, slot.start});
  Assign(index);
}

void ElasticSlots::OnRankDisconnected(int index) { At(index).connected = false; }

bool ElasticSlots::OnRankMessage(int index, const control::Message& message) {
  Slot& slot = At(index);
  const auto current = [&](const control::Epoch& epoch) {
    return slot.assigned.has_value() && slot.assigned->epoch == epoch;
  };
  if (const auto* progress = std::get_if<control::RankProgress>(&message)) {
    if (current(progress->epoch)) actions_->SendToLauncher(message);
  } else if (const auto* done = std::get_if<control::RankDone>(&message)) {
    if (!current(done->epoch)) return true;
    slot.reported.done = {done->epoch, slot.assigned->rank, done->trained};
    actions_->SendToLauncher(*slot.reported.done);
  } else if (const auto* boundary = std::get_if<control::RankAtBoundary>(&message)) {
    if (!current(boundary->epoch)) return true;
    slot.reported.boundary = {boundary->epoch, slot.assigned->rank, boundary->step};
    actions_->SendToLauncher(*slot.reported.boundary);
  } else if (const auto* broken = std::get_if<control::RankBroken>(&message)) {
    if (!current(broken->epoch)) return true;
    slot.reported.store.ForgetGets();
    slot.reported.broken = {broken->epoch, slot.assigned->rank, broken->peer, broken->reason};
    actions_->SendToLauncher(*slot.reported.broken);
  } else if (const auto* written = std::get_if<control::CheckpointWritten>(&message)) {
    if (!current(written->epoch)) return true;
    slot.reported.written = *written;
    slot.reported.written->rank = slot.assigned->rank;
    actions_->SendToLauncher(*slot.reported.written);
  } else if (const auto* completed = std::get_if<control::CheckpointDone>(&message)) {
    slot.checkpoint = *completed;
    actions_->SendToLauncher(*completed);
  } else if (const auto* began = std::get_if<control::RankBegan>(&message)) {
    if (!current(began->epoch)) return true;
    slot.began = *began;
    slot.began->rank = slot.assigned->rank;
    actions_->SendToLauncher(*slot.began);
  } else if (const auto* protection = std::get_if<control::RankProtection>(&message)) {
    OnProtection(index, *protection);
  } else if (const auto* set = std::get_if<control::StoreSet>(&message)) {
    if (!current(set->epoch)) return true;
    if (!slot.reported.store.Set(*set)) {
      LogWarn("Rendezvous data exceeds the replay limit", {{"slot", index}, {"key", set->key}});
    }
    actions_->SendToLauncher(message);
  } else if (const auto* get = std::get_if<control::StoreGet>(&message)) {
    if (!current(get->epoch)) return true;
    control::StoreGet request = *get;
    request.rank = slot.assigned->rank;
    slot.reported.store.Get(request);
    actions_->SendToLauncher(request);
  } else {
    return false;
  }
  return true;
}

void ElasticSlots::OnProtection(int index, control::RankProtection protection) {
  Slot& slot = At(index);
  protection.slot = index;
  if (protection.fault.empty()) {
    slot.unprotected.erase(protection.what);
  } else if (slot.unprotected.size() < kMostUnprotected ||
             slot.unprotected.contains(protection.what)) {
    slot.unprotected[protection.what] = protection;
  }
  actions_->SendToLauncher(protection);
}

void ElasticSlots::OnRankOutput(int index, bool is_stderr, std::string_view data) {
  Route(index);
  At(index).output.Add(is_stderr, data);
}

// The other ranks form their next world at once, but the slot is in use until the process ends.
void ElasticSlots::OnRankKilled(int index, std::vector<std::string> last_lines) {
  Slot& slot = At(index);
  if (!slot.running || !slot.assigned.has_value() || slot.stopping || slot.released || ending_)
    return;
  slot.connected = false;
  const Place place = slot.wanted.value_or(*slot.assigned);
  control::RankExit exit;
  exit.start = slot.start;
  exit.signal = SIGKILL;
  exit.out_of_memory = actions_->LackOfMemory({exit.exit_code, exit.signal});
  exit.last_lines = std::move(last_lines);
  slot.killed = OfThisWorker(index, place.rank, std::move(exit));
  actions_->SendToLauncher(control::RankExited{place.epoch, *slot.killed});
}

void ElasticSlots::OnRankExit(int index, const RankEnd& end) {
  Slot& slot = At(index);
  const std::optional<Place> place = slot.wanted.has_value() ? slot.wanted : slot.assigned;
  const bool asked = slot.stopping;
  const bool meant = asked || slot.released || ending_;
  const bool had_world = slot.assigned.has_value();
  control::RankExit exit;
  exit.start = slot.start;
  exit.exit_code = end.end.exit_code;
  exit.signal = end.end.signal;
  exit.last_lines = end.last_lines;

  const bool never_joined = exit.Clean() && !had_world && !meant;
  if (never_joined) {
    exit.last_lines.push_back("it exited without joining the job" + HowToJoin(options_));
  }
  // Report a user error, because a program that always ends with code 0 would restart forever.
  const bool early = exit.Clean() && had_world && !meant && !slot.reported.done.has_value();
  if (early) {
    exit.exit_code = control::kExitUserError;
    exit.last_lines.push_back("it exited with code 0 before training had ended" +
                              HowToEndEarly(options_));
  }

  std::optional<std::chrono::milliseconds> delay;
  if (!meant) delay = slot.restart.OnEnd({exit.exit_code, exit.signal}, end.lived, had_world);
  if (asked) delay.emplace(0);
  const bool again = delay.has_value() && !ending_ && leaving_.empty();

  slot.running = slot.connected = slot.stopping = false;
  slot.given_up = !again;
  slot.output.EndLines();
  Route(index);
  ReportExit(index, std::move(exit));
  slot.wanted.reset();
  slot.assigned.reset();
  const bool never_began = place.has_value() && !had_world && slot.given_up;
  if (asked) EndAttaches(index, AsAsked());
  if (meant || never_began) EndAttaches(index, slot.exit_report->exit);
  if (!again) return;
  if (*delay == std::chrono::milliseconds(0)) return StartFresh(index);
  LogInfo("Restarting the rank after back-off", {{"slot", index}, {"millis", delay->count()}});
  actions_->RestartRankAfter(index, *delay);
}

void ElasticSlots::OnRestartDue(int index) {
  const Slot& slot = At(index);
  if (!slot.running && !slot.given_up && leaving_.empty()) StartFresh(index);
}

bool ElasticSlots::Drained() const {
  return std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.running && !slot.stopping && (slot.assigned.has_value() || slot.wanted.has_value());
  });
}

bool ElasticSlots::AnyRankRunning() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.running; });
}

void ElasticSlots::EndEndlessLoading(const std::function<std::chrono::milliseconds(int slot)>& age,
                                     std::chrono::milliseconds limit) {
  for (int index = 0; index < options_.slots; ++index) {
    const Slot& slot = At(index);
    if (!slot.running || slot.connected || slot.assigned.has_value() || ending_) continue;
    if (age(index) < limit) continue;
    actions_->EndHangingRank(
        index, slot.start,
        "it did not join the job within " + std::to_string(limit.count() / 1000) +
            " s (spec.faultTolerance.loadTimeoutSeconds)" + HowToJoin(options_));
  }
}

void ElasticSlots::OnAttached(AttachId id, const control::AttachHello& hello) {
  const Slot& slot = At(hello.slot);
  const std::optional<Place>& place = slot.wanted.has_value() ? slot.wanted : slot.assigned;
  if (place.has_value() && place->cohort == hello.cohort) {
    actions_->SendToAttach(id, control::AttachGo{place->epoch, place->rank});
  }
  Route(hello.slot);
}

void ElasticSlots::OnDetached(const Attach& attach) { Route(attach.hello.slot); }

void ElasticSlots::EndRanks(std::chrono::milliseconds grace) {
  for (int index = 0; index < options_.slots; ++index) {
    Slot& slot = At(index);
    Route(index);
    if (slot.running) {
      actions_->StopRank(index, grace);
    } else {
      EndAttaches(index, slot.exit_report.has_value() ? slot.exit_report->exit : AsAsked());
    }
  }
}

void ElasticSlots::StartFresh(int index) {
  if (ending_) return;
  Slot& slot = At(index);
  slot.start = options_.nonce + '-' + std::to_string(++starts_);
  slot.assigned.reset();
  slot.reported = {};
  slot.checkpoint.reset();
  slot.began.reset();
  slot.unprotected.clear();
  slot.connected = slot.stopping = slot.released = slot.given_up = false;
  const Result<void> started = actions_->StartRank(index);
  slot.running = started.ok();
  Route(index);
  if (!started.ok()) OnCannotStart(index, started.error());
}

void ElasticSlots::OnCannotStart(int index, const Error& error) {
  Slot& slot = At(index);
  if (error.kind == ErrorKind::kUnavailable) {
    const std::chrono::milliseconds delay = slot.restart.OnCannotStart();
    LogWarn("Failed to start a rank, retrying",
            {{"slot", index}, {"millis", delay.count()}, {"reason", error.message}});
    return actions_->RestartRankAfter(index, delay);
  }
  slot.given_up = true;
  control::RankExit exit;
  exit.start = slot.start;
  exit.exit_code = control::kExitCannotStart;
  exit.last_lines = {error.message};
  ReportExit(index, std::move(exit));
  if (slot.wanted.has_value()) EndAttaches(index, slot.exit_report->exit);
  slot.wanted.reset();
}

// Reports the exit in the epoch that the process was about to join, or else in its assigned epoch.
void ElasticSlots::ReportExit(int index, control::RankExit exit) {
  Slot& slot = At(index);
  const Place place = slot.wanted.value_or(slot.assigned.value_or(Place{}));
  const bool ended_well = slot.released && exit.Clean();
  const std::optional<control::RankExit> killed = std::exchange(slot.killed, std::nullopt);
  exit.out_of_memory = killed.has_value() ? killed->out_of_memory
                                          : actions_->LackOfMemory({exit.exit_code, exit.signal});
  const control::RankExited report{place.epoch, OfThisWorker(index, place.rank, std::move(exit))};
  actions_->SendToLauncher(report);
  const bool fresh = place.rank < 0;
  const bool member_died = slot.exit_report.has_value() && slot.exit_report->exit.rank >= 0;
  // Keep the exit of a member: a later process that was not in a world must not replace it.
  if (!fresh || !member_died || slot.given_up) slot.exit_report = report;
  const std::optional<control::RankDone> done = slot.reported.done;
  slot.reported = {};
  // Keep RankDone only for a rank that ended well after the release of its epoch.
  if (ended_well && done.has_value() && done->epoch == place.epoch) slot.reported.done = done;
}

void ElasticSlots::EndAttaches(int index, const control::RankExit& exit) {
  for (auto& [id, attach] : attaches_) {
    if (attach.hello.slot != index || attach.exited) continue;
    attach.exited = true;
    actions_->SendToAttach(id, control::AttachExit{exit});
  }
}

// Returns the newest attach of the slot that has not exited; 0 if there is none.
AttachId ElasticSlots::AttachOf(int index) const {
  AttachId newest = 0;
  for (const auto& [id, attach] : attaches_) {
    if (attach.hello.slot == index && !attach.exited) newest = std::max(newest, id);
  }
  return newest;
}

// Selects the destination of the slot's output. Call after every change that may affect it.
void ElasticSlots::Route(int index) {
  using Way = SlotOutput::Way;
  Slot& slot = At(index);
  const std::optional<Place>& place = slot.wanted.has_value() ? slot.wanted : slot.assigned;
  const int rank = place.has_value() ? place->rank : -1;
  const AttachId attach = slot.gate_open ? AttachOf(index) : 0;
  if (attach != 0) return slot.output.GoTo({Way::kAttach, attach, rank});
  if (ending_ && (!actions_->LauncherTakesOutput() || !place.has_value())) {
    return slot.output.GoTo({.way = Way::kLocal, .rank = rank});
  }
  const bool known = place.has_value() || !slot.running;
  slot.output.GoTo({.way = known ? Way::kLauncher : Way::kWait, .rank = rank});
}

}  // namespace ringmaster::agent

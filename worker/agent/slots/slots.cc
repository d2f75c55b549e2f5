#include "worker/agent/slots/slots.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/log.h"
#include "worker/agent/slots/direct_slots.h"
#include "worker/agent/slots/elastic_slots.h"

namespace ringmaster::agent {

std::string ToText(const control::Epoch& epoch) {
  return std::to_string(epoch.term) + '.' + std::to_string(epoch.number);
}

std::unique_ptr<Slots> Slots::Make(const SlotsOptions& options, SlotActions* actions) {
  if (options.elastic) return std::make_unique<ElasticSlots>(options, actions);
  return std::make_unique<DirectSlots>(options, actions);
}

Slots::Slots(SlotsOptions options, SlotActions* actions)
    : options_(std::move(options)), actions_(actions) {}

bool Slots::OnWelcome(std::int64_t term) {
  if (term < highest_epoch_.term || term < term_) return false;
  if (term > term_ && term_ != 0) {
    // The attaches belong to the mpirun of a previous launcher. Ranks and programs continue until
    // the new launcher decides about them.
    for (auto entry = attaches_.begin(); entry != attaches_.end();) {
      entry->second.former = RunsProgram(entry->second);
      if (!entry->second.former) actions_->CloseAttach(entry->first);
      entry = entry->second.former ? std::next(entry) : attaches_.erase(entry);
    }
  }
  term_ = term;
  for (const auto& [id, attach] : attaches_) {
    if (attach.former || (attach.exited && options_.elastic)) continue;
    actions_->SendToLauncher(control::SlotAttached{attach.hello.cohort, attach.hello.slot,
                                                   attach.hello.mpi_rank,
                                                   attach.hello.mpi_world_size});
  }
  RepeatToLauncher(term);
  if (!leaving_.empty()) actions_->SendToLauncher(control::AgentLeaving{leaving_});
  return true;
}

bool Slots::OnRankMessage(int /*slot*/, const control::Message& /*message*/) { return false; }

void Slots::OnAttach(AttachId id, const control::AttachHello& hello) {
  if (hello.direct == options_.elastic) {
    control::RankExit exit;
    exit.exit_code = 1;
    exit.last_lines = {options_.elastic ? "the agent starts the ranks of this job"
                                        : "attach starts the program of this job"};
    actions_->SendToAttach(id, control::AttachExit{exit});
    return;
  }
  attaches_[id] = Attach{hello};
  // Report every attach, because the launcher detects invalid slots and slots that have attached
  // twice.
  actions_->SendToLauncher(
      control::SlotAttached{hello.cohort, hello.slot, hello.mpi_rank, hello.mpi_world_size});
  if (ValidSlot(hello.slot)) OnAttached(id, hello);
}

void Slots::OnAttachDisconnected(AttachId id) {
  const auto found = attaches_.find(id);
  if (found == attaches_.end()) return;
  const Attach attach = found->second;
  attaches_.erase(found);
  if (ValidSlot(attach.hello.slot)) OnDetached(attach);
}

bool Slots::Leave(const std::string& reason) {
  leaving_ = reason;
  actions_->SendToLauncher(control::AgentLeaving{reason});
  return !Drained();
}

void Slots::End(std::chrono::milliseconds grace) {
  ending_ = true;
  EndRanks(grace);
}

bool Slots::Accept(const control::Epoch& epoch, const char* what) {
  if (epoch < highest_epoch_) {
    LogWarn("Rejected an epoch older than the latest one",
            {{"message", what}, {"epoch", ToText(epoch)}, {"highest", ToText(highest_epoch_)}});
    return false;
  }
  highest_epoch_ = epoch;
  return true;
}

control::RankExit Slots::OfThisWorker(int slot, int rank, control::RankExit exit) const {
  exit.slot = slot;
  exit.rank = rank;
  exit.pod_uid = options_.pod_uid;
  exit.pod = options_.pod;
  exit.node = options_.node;
  return exit;
}

const control::Member* Slots::FindMember(const std::vector<control::Member>& members,
                                         int slot) const {
  const auto member =
      std::find_if(members.begin(), members.end(), [&](const control::Member& candidate) {
        return candidate.pod_uid == options_.pod_uid && candidate.slot == slot;
      });
  return member == members.end() ? nullptr : &*member;
}

}  // namespace ringmaster::agent

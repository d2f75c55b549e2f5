#include "worker/trainer/comm/shared_memory/agreement.h"

#include <cstdlib>
#include <optional>
#include <unistd.h>

#include "worker/trainer/comm/missing_key.h"

namespace ringmaster::trainer {
namespace {

constexpr char kNo[] = "no ";

bool IsNo(const std::string& said) { return said.starts_with(kNo); }

// Exchanges texts between the ranks through the store.
class Talk {
 public:
  Talk(const World& world, Deadline deadline, std::atomic<int>& missing)
      : world_(world), deadline_(deadline), missing_(missing) {}

  // Publishes `mine` under `topic` and returns the texts of all ranks.
  Result<std::vector<std::string>> Exchange(const std::string& topic, const std::string& mine) {
    const auto key = [&](int rank) {
      return "shared-memory/" + topic + "/" + std::to_string(rank);
    };
    Result<void> said = world_.store->Set(key(world_.rank), mine);
    if (!said.ok())
      return said.error().WithContext("publishing this rank's description of its shared memory");
    std::vector<std::string> keys;
    for (int rank = 0; rank < world_.size; ++rank) {
      if (rank != world_.rank) keys.push_back(key(rank));
    }
    Result<std::vector<std::string>> others = world_.store->Get(keys, deadline_);
    if (!others.ok()) {
      const bool late = others.error().kind == ErrorKind::kTimeout;
      const auto only = late ? OnlyMissing(*world_.store, keys) : std::nullopt;
      if (only) missing_ = static_cast<int>(*only) + (static_cast<int>(*only) >= world_.rank);
      return others.error().WithContext("looking for the other ranks");
    }
    others->insert(others->begin() + world_.rank, mine);
    return others;
  }

 private:
  const World& world_;
  const Deadline deadline_;
  std::atomic<int>& missing_;
};

// Returns the answer of the lowest rank that refused; empty if no rank did.
std::string Objection(const std::vector<std::string>& said) {
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (IsNo(said[rank])) {
      return "rank " + std::to_string(rank) + ": " + said[rank].substr(sizeof(kNo) - 1);
    }
  }
  return "";
}

}  // namespace

Result<SharedWorld> AgreeOnMemory(const World& world, bool want, std::size_t bytes,
                                  Deadline deadline, std::atomic<int>& missing) {
  Talk talk(world, deadline, missing);
  SharedWorld shared;
  std::string mine = std::to_string(::getpid());  // segment descriptions also begin with the pid
  if (!want) {
    mine = std::string(kNo) + "it is disabled";
  } else if (!PeerProcess::CanBeWatched()) {
    mine = std::string(kNo) + "this system does not allow watching other processes";
  } else if (world.rank == 0) {
    Result<std::unique_ptr<Segment>> made = Segment::Create(bytes);
    mine = made.ok() ? (*made)->description() : kNo + made.error().message;
    if (made.ok()) shared.segment = *std::move(made);
  }
  const auto offers = talk.Exchange("offer", mine);
  if (!offers.ok()) return offers.error();
  shared.why_not = Objection(*offers);
  if (!shared.why_not.empty()) return SharedWorld{.why_not = shared.why_not};

  std::string outcome = "yes";
  if (world.rank != 0) {
    Result<std::unique_ptr<Segment>> opened = Segment::Open(offers->front(), bytes);
    if (opened.ok()) shared.segment = *std::move(opened);
    if (!opened.ok()) outcome = kNo + opened.error().message;
  }
  const auto outcomes = talk.Exchange("mapped", outcome);
  if (!outcomes.ok()) return outcomes.error();
  shared.why_not = Objection(*outcomes);
  if (!shared.why_not.empty()) return SharedWorld{.why_not = shared.why_not};
  for (const std::string& offer : *offers) shared.processes.emplace_back(std::atoi(offer.c_str()));
  return shared;
}

}  // namespace ringmaster::trainer

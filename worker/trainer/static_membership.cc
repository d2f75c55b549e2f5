#include <utility>

#include "worker/trainer/membership_source.h"

namespace ringmaster::trainer {
namespace {

// A single process has nobody to meet.
class NoStore final : public Store {
 public:
  Result<void> Set(const std::string&, const std::string&) override { return {}; }
  Result<std::vector<std::string>> Get(const std::vector<std::string>&, Deadline) override {
    return Error{ErrorKind::kInternal, "a single process has no rendezvous store"};
  }
};

class StaticMembership final : public MembershipSource {
 public:
  StaticMembership(World world, std::unique_ptr<Store> store)
      : world_(std::move(world)), store_(std::move(store)) {}

  Result<World> AwaitWorld() override { return world_; }
  Store& store() override { return *store_; }
  void Report(const control::Progress&) override {}
  Result<void> Finish(const control::Progress&) override { return {}; }
  void Broken(const std::string&) override {}

 private:
  const World world_;
  const std::unique_ptr<Store> store_;
};

}  // namespace

std::unique_ptr<MembershipSource> MakeSingleMembership() {
  return std::make_unique<StaticMembership>(World{}, std::make_unique<NoStore>());
}

std::unique_ptr<MembershipSource> MakeStaticMembership(World world, std::unique_ptr<Store> store) {
  return std::make_unique<StaticMembership>(std::move(world), std::move(store));
}

}  // namespace ringmaster::trainer

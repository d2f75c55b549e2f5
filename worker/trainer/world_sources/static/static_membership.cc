#include "worker/trainer/world_sources/static/static_membership.h"

#include <utility>

namespace ringmaster::trainer {
namespace {

class StaticMembership final : public MembershipSource {
 public:
  explicit StaticMembership(World world) : world_(std::move(world)) {}

  Result<World> AwaitWorld(control::Epoch after) override {
    if (after < world_.epoch) return world_;
    return Error{ErrorKind::kNotFound, "this world is static, so no other world follows"};
  }
  void Watch(control::Epoch, OverCallback) override {}
  void Unwatch() override {}
  bool SwitchWanted(control::Epoch, int64_t) override { return false; }
  void Broken(const World&, int, const std::string&) override {}
  void AtBoundary(const World&, int64_t) override {}
  void Report(const World&, const control::Progress&) override {}
  Result<bool> Finish(const World&, const control::Progress&) override { return true; }

 private:
  const World world_;
};

}  // namespace

std::unique_ptr<MembershipSource> MakeSingleMembership() {
  return MakeStaticMembership(World{}, nullptr);
}

std::unique_ptr<MembershipSource> MakeStaticMembership(World world, std::shared_ptr<Store> store) {
  world.epoch = {.term = 1, .number = 1};
  world.store = std::move(store);
  for (int rank = 0; rank < world.size; ++rank) {
    world.members.push_back("static/" + std::to_string(rank) + "/1");
  }
  return std::make_unique<StaticMembership>(std::move(world));
}

}  // namespace ringmaster::trainer

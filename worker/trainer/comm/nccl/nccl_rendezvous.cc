#include "worker/trainer/comm/nccl/nccl_rendezvous.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/json/fields.h"
#include "common/json/forms.h"
#include "worker/trainer/comm/missing_key.h"

namespace ringmaster::trainer {
namespace {

constexpr char kPlanKey[] = "nccl/plan";

std::string StatementKey(int rank) { return "nccl/rank/" + std::to_string(rank); }

// The JSON codec of an id: an array of its bytes as numbers.
struct AsBytes {
  Json Write(const NcclUniqueId& id) const {
    return std::vector<int>(id.bytes.begin(), id.bytes.end());
  }
  std::string Read(const Json& json, NcclUniqueId& id) const {
    const auto bytes = FromJson<std::vector<int>>(json);
    if (!bytes.ok() || bytes->size() != id.bytes.size()) return "is not a valid id";
    std::ranges::transform(*bytes, id.bytes.begin(),
                           [](int byte) { return static_cast<char>(byte); });
    return {};
  }
};

Error Unreadable(int rank) {
  return {ErrorKind::kUnavailable,
          "the NCCL description of rank " + std::to_string(rank) + " is invalid"};
}

}  // namespace

void Describe(auto& a, Is<NcclStatement> auto& v) {
  a.Field("version", v.version);
  a.Field("parent", v.parent);
  a.Field("parent_rank", v.parent_rank);
  a.Field("parent_size", v.parent_size);
  a.Field("state", v.state, AsNumber{0, static_cast<int>(ParentState::kBroken)});
  a.Field("registers", v.registers);
}

void Describe(auto& a, Is<NcclPlan> auto& v) {
  a.Field("path", v.path, AsNumber{0, static_cast<int>(NcclPath::kGrow)});
  a.Field("excluded", v.excluded);
  a.Field("old_ranks", v.old_ranks);
  a.Field("id", v.id, AsBytes());
  a.Field("registers", v.registers);
}

namespace {

// Returns the statements of all ranks. Called on rank 0.
Result<std::vector<NcclStatement>> Gather(const World& world, Deadline deadline,
                                          const std::function<void(int rank)>& missing) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < world.size; ++rank) keys.push_back(StatementKey(rank));
  const auto found = world.store->Get(keys, deadline);
  if (!found.ok()) {
    if (found.error().kind == ErrorKind::kTimeout) {
      if (const auto only = OnlyMissing(*world.store, keys)) missing(static_cast<int>(*only));
    }
    return found.error().WithContext("waiting for all ranks");
  }
  std::vector<NcclStatement> statements;
  for (int rank = 0; rank < world.size; ++rank) {
    const auto statement = DecodeJson<NcclStatement>((*found)[static_cast<std::size_t>(rank)]);
    if (!statement.ok()) return Unreadable(rank);
    statements.push_back(*statement);
  }
  return statements;
}

Result<NcclPlan> Decide(const std::vector<NcclStatement>& statements,
                        const std::function<Result<NcclUniqueId>(NcclPath)>& make_id) {
  NcclPlan plan{.path = PathOf(statements), .registers = AllRegister(statements)};
  if (plan.path == NcclPath::kShrink || plan.path == NcclPath::kShrinkAbort) {
    plan.excluded = ExcludedFrom(statements);
    return plan;
  }
  if (plan.path == NcclPath::kGrow) plan.old_ranks = statements.front().parent_size;
  const Result<NcclUniqueId> id = make_id(plan.path);
  if (!id.ok()) return id.error();
  plan.id = *id;
  return plan;
}

}  // namespace

Result<NcclPlan> AgreeOnPlan(const World& world, const NcclStatement& mine, Deadline deadline,
                             const std::function<Result<NcclUniqueId>(NcclPath)>& make_id,
                             const std::function<void(int rank)>& missing) {
  if (world.size == 1) return Decide({mine}, make_id);
  const Result<void> said = world.store->Set(StatementKey(world.rank), EncodeJson(mine));
  if (!said.ok()) return said.error().WithContext("publishing this rank's NCCL description");
  if (world.rank != 0) {
    const auto found = world.store->Get({kPlanKey}, deadline);
    if (!found.ok()) return found.error().WithContext("waiting for rank 0's plan");
    const auto plan = DecodeJson<NcclPlan>(found->front());
    if (!plan.ok()) return Unreadable(0);
    return *plan;
  }
  const auto statements = Gather(world, deadline, missing);
  if (!statements.ok()) return statements.error();
  Result<NcclPlan> plan = Decide(*statements, make_id);
  if (!plan.ok()) return plan;
  const Result<void> published = world.store->Set(kPlanKey, EncodeJson(*plan));
  if (!published.ok()) return published.error().WithContext("publishing the plan");
  return plan;
}

}  // namespace ringmaster::trainer

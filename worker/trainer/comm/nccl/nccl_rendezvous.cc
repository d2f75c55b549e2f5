#include "worker/trainer/comm/nccl/nccl_rendezvous.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "worker/trainer/comm/missing_key.h"

namespace ringmaster::trainer {
namespace {

using nlohmann::json;

constexpr char kPlanKey[] = "nccl/plan";

std::string StatementKey(int rank) { return "nccl/rank/" + std::to_string(rank); }

std::string Encode(const NcclStatement& statement) {
  return json{{"version", statement.version},
              {"parent", statement.parent},
              {"parent_rank", statement.parent_rank},
              {"parent_size", statement.parent_size},
              {"state", static_cast<int>(statement.state)},
              {"registers", statement.registers}}
      .dump();
}

std::optional<NcclStatement> DecodeStatement(const std::string& text) {
  try {
    const json read = json::parse(text);
    const int state = read.at("state").get<int>();
    if (state < 0 || state > static_cast<int>(ParentState::kBroken)) return std::nullopt;
    return NcclStatement{.version = read.at("version").get<int>(),
                         .parent = read.at("parent").get<std::string>(),
                         .parent_rank = read.at("parent_rank").get<int>(),
                         .parent_size = read.at("parent_size").get<int>(),
                         .state = static_cast<ParentState>(state),
                         .registers = read.at("registers").get<bool>()};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::string Encode(const NcclPlan& plan) {
  return json{{"path", static_cast<int>(plan.path)},
              {"excluded", plan.excluded},
              {"old_ranks", plan.old_ranks},
              {"id", std::vector<int>(plan.id.bytes.begin(), plan.id.bytes.end())},
              {"registers", plan.registers}}
      .dump();
}

std::optional<NcclPlan> DecodePlan(const std::string& text) {
  try {
    const json read = json::parse(text);
    const int path = read.at("path").get<int>();
    const auto id = read.at("id").get<std::vector<int>>();
    NcclPlan plan{.path = static_cast<NcclPath>(path),
                  .excluded = read.at("excluded").get<std::vector<int>>(),
                  .old_ranks = read.at("old_ranks").get<int>(),
                  .registers = read.at("registers").get<bool>()};
    if (path < 0 || path > static_cast<int>(NcclPath::kGrow)) return std::nullopt;
    if (id.size() != plan.id.bytes.size()) return std::nullopt;
    std::ranges::transform(id, plan.id.bytes.begin(),
                           [](int byte) { return static_cast<char>(byte); });
    return plan;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

Error Unreadable(int rank) {
  return {ErrorKind::kUnavailable,
          "what rank " + std::to_string(rank) + " says about its NCCL cannot be understood"};
}

// On rank 0.
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
    const auto statement = DecodeStatement((*found)[static_cast<std::size_t>(rank)]);
    if (!statement) return Unreadable(rank);
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
  const Result<void> said = world.store->Set(StatementKey(world.rank), Encode(mine));
  if (!said.ok()) return said.error().WithContext("publishing this rank's NCCL");
  if (world.rank != 0) {
    const auto found = world.store->Get({kPlanKey}, deadline);
    if (!found.ok()) return found.error().WithContext("waiting for rank 0's plan");
    const auto plan = DecodePlan(found->front());
    if (!plan) return Unreadable(0);
    return *plan;
  }
  const auto statements = Gather(world, deadline, missing);
  if (!statements.ok()) return statements.error();
  Result<NcclPlan> plan = Decide(*statements, make_id);
  if (!plan.ok()) return plan;
  const Result<void> published = world.store->Set(kPlanKey, Encode(*plan));
  if (!published.ok()) return published.error().WithContext("publishing the plan");
  return plan;
}

}  // namespace ringmaster::trainer

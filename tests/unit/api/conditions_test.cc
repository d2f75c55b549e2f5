#include "operator/api/conditions.h"

#include <gtest/gtest.h>

#include "operator/api/names.h"

namespace ringmaster::api {
namespace {

Condition Make(ConditionStatus status, const char* reason) {
  return {.type = kWorkersReady, .status = status, .reason = reason, .message = "m"};
}

TEST(Conditions, KeepTransitionTimeWhileStatusIsTheSame) {
  std::vector<Condition> conditions;
  SetCondition(conditions, Make(ConditionStatus::kFalse, "A"), "2026-01-01T00:00:00Z");

  SetCondition(conditions, Make(ConditionStatus::kFalse, "B"), "2026-01-02T00:00:00Z");

  ASSERT_EQ(conditions.size(), 1u);
  EXPECT_EQ(conditions[0].reason, "B");
  EXPECT_EQ(conditions[0].last_transition_time, "2026-01-01T00:00:00Z");
}

TEST(Conditions, MoveTransitionTimeWhenStatusChanges) {
  std::vector<Condition> conditions;
  SetCondition(conditions, Make(ConditionStatus::kFalse, "A"), "2026-01-01T00:00:00Z");

  SetCondition(conditions, Make(ConditionStatus::kTrue, "B"), "2026-01-02T00:00:00Z");

  EXPECT_EQ(conditions[0].last_transition_time, "2026-01-02T00:00:00Z");
  EXPECT_TRUE(IsTrue(conditions, kWorkersReady));
}

TEST(Conditions, AMessageOfAMegabyteIsCutAtACharacter) {
  Condition condition = Make(ConditionStatus::kFalse, "A");
  condition.message = "x";
  while (condition.message.size() < 1 << 20) condition.message += "\u00e9";  // two bytes
  std::vector<Condition> conditions;

  SetCondition(conditions, condition, "2026-01-01T00:00:00Z");

  EXPECT_EQ(conditions[0].message, condition.message.substr(0, 4095));
}

TEST(Conditions, OnlyATrueEndIsAnEnd) {
  TrainingJobStatus status;
  status.conditions = {{.type = kFailed, .status = ConditionStatus::kFalse}};

  EXPECT_FALSE(IsTerminal(status));

  status.conditions[0].status = ConditionStatus::kTrue;
  EXPECT_TRUE(IsTerminal(status));
}

}  // namespace
}  // namespace ringmaster::api

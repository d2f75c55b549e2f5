// Tests that the start gate opens only if the attached processes are the expected ones.

#include "worker/launcher/model/start_gate.h"

#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

using Kind = StartGate::Fault::Kind;

TEST(StartGate, IsCompleteWhenEachSlotHasAttachedOnce) {
  StartGate gate;
  gate.Expect({{"a", 0}, {"b", 0}});
  gate.Attach({"b", 0}, 1, 2);
  gate.Attach({"b", 0}, 1, 2);  // attached again
  EXPECT_FALSE(gate.Complete());

  gate.Attach({"a", 0}, 0, 2);

  EXPECT_TRUE(gate.Complete());
  EXPECT_FALSE(gate.fault());
}

TEST(StartGate, ReportsWhatIsWrongWithTheSet) {
  struct Attach {
    StartGate::Slot slot;
    int mpi_rank;
    int mpi_world_size;
  };
  struct Case {
    const char* what;
    std::vector<Attach> attaches;
    Kind kind;
    int world_size = 0;
  };
  const Case cases[] = {
      {"twice", {{{"a", 0}, 0, 2}, {{"a", 0}, 1, 2}}, Kind::kAttachedTwice},
      {"elsewhere", {{{"a", 0}, 0, 2}, {{"a", 1}, 1, 2}}, Kind::kNotExpected},
      {"another world", {{{"a", 0}, 0, 1}}, Kind::kOtherWorldSize, 1},
      {"the same rank", {{{"a", 0}, 0, 2}, {{"b", 0}, 0, 2}}, Kind::kSameRank},
      {"twice after it was whole",
       {{{"a", 0}, 0, 2}, {{"b", 0}, 1, 2}, {{"b", 0}, 0, 2}},
       Kind::kAttachedTwice},
  };
  for (const Case& c : cases) {
    StartGate gate;
    gate.Expect({{"a", 0}, {"b", 0}});
    for (const Attach& attach : c.attaches) {
      gate.Attach(attach.slot, attach.mpi_rank, attach.mpi_world_size);
    }
    ASSERT_TRUE(gate.fault()) << c.what;
    EXPECT_EQ(gate.fault()->kind, c.kind) << c.what;
    EXPECT_EQ(gate.fault()->world_size, c.world_size) << c.what;
    EXPECT_FALSE(gate.Complete()) << c.what;
  }
}

}  // namespace
}  // namespace ringmaster::launcher

#include "worker/agent/links/attach_peers.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class AttachPeersTest : public testing::Test {
 protected:
  void SetUp() override { attaches.Add(7, /*slot=*/3, /*pid=*/100); }

  std::vector<std::pair<int, bool>> pauses;
  AttachPeers attaches{[this](int slot, bool paused) { pauses.emplace_back(slot, paused); }};
};

TEST_F(AttachPeersTest, ASlowAttachHoldsItsSlotUntilItHasTakenWhatItWasSent) {
  attaches.OnQueued(7, AttachPeers::kMaxQueuedBytes - 1);
  EXPECT_THAT(pauses, IsEmpty());

  attaches.OnQueued(7, AttachPeers::kMaxQueuedBytes);
  attaches.OnDrained(7);

  EXPECT_THAT(pauses, ElementsAre(Pair(3, true), Pair(3, false)));
}

TEST_F(AttachPeersTest, OneThatDisconnectsOrIsClosedPausesNoRank) {
  attaches.OnQueued(7, AttachPeers::kMaxQueuedBytes);
  attaches.Remove(7);

  EXPECT_THAT(pauses, ElementsAre(Pair(3, true), Pair(3, false)));
  EXPECT_FALSE(attaches.Contains(7));
  EXPECT_EQ(attaches.Pid(7), -1);
}

TEST_F(AttachPeersTest, OneThatHasDisconnectedPausesNothing) {
  attaches.Remove(7);
  pauses.clear();

  attaches.OnQueued(7, AttachPeers::kMaxQueuedBytes);
  attaches.OnDrained(7);

  EXPECT_THAT(pauses, IsEmpty());
}

}  // namespace
}  // namespace ringmaster::agent

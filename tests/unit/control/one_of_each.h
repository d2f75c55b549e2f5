#pragma once

// One message of every type. Every field of a message has a value.

#include <cstdint>
#include <string>
#include <vector>

#include "common/control/messages.h"

namespace ringmaster::control {

inline const Epoch kEpoch{2, 41};
inline const Member kFirst{"uid0", "digits-worker-0", "node1", "10.0.0.2", 0, "other-é1", 0};
inline const Member kMember{"uid", "digits-worker-1", "node2", "10.0.0.3", 1, "nonce-3", 1};
inline const RankExit kExit{
    5, "uid", "digits-worker-1", "node2", 1, "nonce-3", 3, 0, {"first", "last \"line\" \\ \t é"}};

inline const RankPosition kPosition{.rank = 5,
                                    .slot = 1,
                                    .entered = true,
                                    .stopped = true,
                                    .step = 41,
                                    .bucket = 2,
                                    .phase = RankPhase::kReduce,
                                    .peer = 3,
                                    .still_millis = 2100,
                                    .step_micros = 52'000,
                                    .own_micros = 31'000,
                                    .applied_millis = 2150,
                                    .collectives = {9, 8, CollectiveKind::kAllGather}};

inline std::vector<Message> OneOfEach() {
  return {AgentHello{1, "token", "job", "uid", "digits-worker-1", "node2", 1, 8, "nonce", kEpoch},
          AgentReady{"10.0.0.3", 2222, {{"gpu", "none"}}, {{"openmpi", "5.0.7"}}},
          Heartbeat{250},
          SlotAttached{7, 1, 5, 16},
          RankExited{kEpoch, kExit},
          RankProgress{kEpoch, {100, 500, 41000.5, 0.031, 0.97}},
          RankDone{kEpoch, 5, false},
          AgentLeaving{"SIGTERM"},
          Welcome{2, 100},
          Refused{"wrong token"},
          StartEpoch{kEpoch, 7, {kFirst, kMember}, 3},
          StopEpoch{kEpoch, 500},
          Release{kEpoch},
          Shutdown{},
          StoreSet{kEpoch, "key", std::string("\0\n\xff{}", 5)},
          StoreGet{kEpoch, 9, 3, {"a", "b"}},
          StoreValues{kEpoch, 9, 3, {"", std::string("\xc3", 1), "three"}},
          AttachHello{7, 1, 5, 16, true},
          AttachGo{kEpoch, 5},
          RankOutput{true, "half a line \xe2\x82"},
          AttachExit{kExit},
          RankHello{1, 4711},
          RankEpoch{kEpoch, 5, {kFirst}, 7},
          RankReady{1, "nonce-3"},
          EpochAccepted{kEpoch},
          WorldReport{kEpoch, {kFirst, kMember}, {"nonce-3", ""}, true},
          RankBroken{kEpoch, 5, -1, "reset by peer"},
          RankAtBoundary{kEpoch, 5, 1'000'000'000'000},
          SlotOutput{1, -1, true, std::string("line\n\xff\0\n", 8)},
          PrepareEpoch{kEpoch},
          SwitchEpoch{kEpoch},
          RankLeave{kEpoch},
          RankSwitch{kEpoch},
          RankPositions{kEpoch, {kPosition, {}}},
          RankStack{1, "nonce-3", "it stood still", "thread 7 (R)\n  #0 libc.so.6(read+0x1)\n"},
          EndStalledRank{1, "nonce-3", "it stood still"},
          CheckpointWritten{kEpoch, 1, 500, 0, int64_t{1} << 40, "00ff"},
          CheckpointDone{kEpoch, 1, 500, int64_t{3} << 40},
          RankProtection{1, "checkpoint", "no space left"},
          CheckpointGrant{kEpoch, 1, 500, 0},
          DataCacheProgress{int64_t{41} << 30, int64_t{140} << 30},
          TakeCheckpoint{kEpoch},
          RankBegan{kEpoch,
                    0,
                    {500, "it started from step 500 of another job"},
                    KeptCheckpoint{.step = 450, .bytes = 4096, .age_millis = 60'000}},
          TellWorld{kEpoch},
          ChangeEpoch{kEpoch, 7, {2, 40}, {{0, 2}, {5, 1}}, {kFirst, kMember}, 9},
          RunCommand{3, "PATH=/opt/mpi/bin:$PATH ; export PATH ; orted -mca x \"a b\""},
          EndCommand{3},
          CommandOutput{3, true, std::string("line\n\xff\0\n", 8)},
          CommandExited{3, -1, 9, "there is no sh"},
          RshHello{"240.0.0.1", "orted"},
          AttachStarted{4711}};
}

}  // namespace ringmaster::control

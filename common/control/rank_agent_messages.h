#pragma once

// The messages between a rank and its agent, sent over a unix socket; messages.h defines the
// framing. The agent relays all but the first four between the rank and the launcher.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/control/kept_checkpoint.h"
#include "common/control/membership.h"
#include "common/control/protocol_version.h"

namespace ringmaster::control {

// --- rank <-> agent alone

// First line of a rank: it has loaded its data and model and waits for an epoch.
struct RankHello {
  int slot = 0;
  int64_t pid = 0;  // for people
  int protocol = kProtocolVersion;
};

// agent -> rank: the world it is in. Its own entry in `members` is the one with `rank`. A higher
// one may follow any time.
struct RankEpoch {
  Epoch epoch;
  int rank = 0;
  std::vector<Member> members;
  int full_size = 0;  // as StartEpoch has it
};

// agent -> rank: every epoch below this one is over; give up what is in flight, keep the state,
// wait for RankEpoch.
struct RankLeave {
  Epoch below;
};

// agent -> rank: SwitchEpoch.
struct RankSwitch {
  Epoch epoch;
  bool leaving = false;
};

// --- rank -> agent -> launcher

// A rank cannot continue in its epoch because of its peers. An observation, not evidence of a
// loss.
struct RankBroken {
  Epoch epoch;
  int rank = 0;
  int peer = -1;  // the rank it could not reach, -1: unknown
  std::string reason;
};

// All ranks of the epoch left it after this step, as SwitchEpoch asked; they wait for the next.
struct RankAtBoundary {
  Epoch epoch;
  int rank = 0;
  int64_t step = 0;
};

// Rank 0 committed steps; at most twice a second.
struct RankProgress {
  Epoch epoch;
  Progress progress;
};

// The rank is past its last step and waits for Release.
struct RankDone {
  Epoch epoch;
  int rank = 0;
  bool trained = true;  // false: another job's state had all steps, and none is of this one
};

// A rank has written a part of a checkpoint to the volume and asks whether it may count. Asked
// again in each world, and after every Welcome, until it is granted.
struct CheckpointWritten {
  Epoch epoch;  // of the world that the rank is in now
  int rank = 0;
  int64_t step = 0;  // that the state is of
  int shard = 0;
  int64_t bytes = 0;
  std::string checksum;  // of its data, in hex
};

// It is complete: what was granted in this epoch to this rank. Again after every Welcome, the
// newest one: a launcher that takes over has it from there.
struct CheckpointDone {
  Epoch epoch;
  int rank = 0;
  int64_t step = 0;
  int64_t bytes = 0;  // held by all complete ones that are kept
};

// Sent by rank 0 of the first world to train: what training starts from (with a message if users
// should know), and the job's own checkpoint that it resumes from, if any. Sent again after every
// Welcome while the process runs.
struct RankBegan {
  Epoch epoch;
  int rank = 0;
  Beginning beginning;
  std::optional<KeptCheckpoint> kept{};
};

// What a slot cannot save at present, and why; an empty fault: it can again. Repeated after every
// Welcome while it holds.
struct RankProtection {
  int slot = 0;
  std::string what;   // "checkpoint", "snapshot", "copy" or "restore"
  std::string fault;  // a sentence
};

// --- launcher -> agent -> rank

// The checkpoint that this rank has written may be marked complete: it is a member of the newest
// world. To the rank as it is.
struct CheckpointGrant {
  Epoch epoch;
  int rank = 0;
  int64_t step = 0;
  int shard = 0;
};

// The state is to be written as a checkpoint after the next step, out of turn. To rank 0's agent,
// and to the rank as it is; asked again where none becomes complete.
struct TakeCheckpoint {
  Epoch epoch;
};

// Every rank of the epoch is done: ranks may end, with code 0.
struct Release {
  Epoch epoch;
};

// --- the rendezvous store, rank -> agent -> launcher and back. Values live in the launcher's
// memory, under the epoch, and go with it.

struct StoreSet {
  Epoch epoch;
  std::string key;
  std::string value;  // bytes; base64 on the wire
};

// Answered by StoreValues with the same id once every key exists. No answer before that; the asker
// has the deadline.
struct StoreGet {
  Epoch epoch;
  int64_t id = 0;
  int rank = 0;  // the asker, so that the agent knows whom to answer
  std::vector<std::string> keys;
};

struct StoreValues {
  Epoch epoch;
  int64_t id = 0;
  int rank = 0;
  std::vector<std::string> values;  // in the order of the keys asked for; base64 on the wire
};

}  // namespace ringmaster::control

#pragma once

// The messages between a rank and its agent, sent over a unix socket; messages.h defines the
// framing. The agent relays all messages except the first four between the rank and the launcher.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/control/kept_checkpoint.h"
#include "common/control/membership.h"
#include "common/control/protocol_version.h"

namespace ringmaster::control {

// --- between rank and agent only

// The first line that a rank sends: it has loaded its data and model and waits for an epoch.
struct RankHello {
  int slot = 0;
  int64_t pid = 0;  // for logs
  int protocol = kProtocolVersion;
};

// agent -> rank: the world that the rank is in. `rank` is the index in `members` of the rank that
// gets the message. A message with a higher epoch may follow at any time.
struct RankEpoch {
  Epoch epoch;
  int rank = 0;
  std::vector<Member> members;
  int full_size = 0;  // as in StartEpoch
};

// agent -> rank: every epoch below this one is over. The rank drops pending operations, keeps its
// state and waits for RankEpoch.
struct RankLeave {
  Epoch below;
};

// agent -> rank: forwards the launcher's SwitchEpoch.
struct RankSwitch {
  Epoch epoch;
  bool leaving = false;
};

// --- rank -> agent -> launcher

// A rank cannot continue in its epoch because of its peers. The message does not prove that a peer
// is lost.
struct RankBroken {
  Epoch epoch;
  int rank = 0;
  int peer = -1;  // the rank that it could not reach; -1: unknown
  std::string reason;
};

// All ranks left the epoch after this step, as SwitchEpoch requested, and wait for the next epoch.
struct RankAtBoundary {
  Epoch epoch;
  int rank = 0;
  int64_t step = 0;
};

// Rank 0 committed steps. Sent at most twice a second.
struct RankProgress {
  Epoch epoch;
  Progress progress;
};

// The rank has completed its last step and waits for Release.
struct RankDone {
  Epoch epoch;
  int rank = 0;
  bool trained = true;  // false: the state of another job already had all steps, so no step was run
};

// A rank has written its part of a checkpoint to the volume and asks for permission to complete it.
// Repeated in each world, and after every Welcome, until it is granted.
struct CheckpointWritten {
  Epoch epoch;  // the world that the rank is in now
  int rank = 0;
  int64_t step = 0;  // step of the saved state
  int shard = 0;
  int64_t bytes = 0;
  std::string checksum;  // checksum of the shard's data, in hex
};

// The checkpoint that was granted to this rank in this epoch is complete. The newest of these
// messages is sent again after every Welcome, so that a new launcher learns about it.
struct CheckpointDone {
  Epoch epoch;
  int rank = 0;
  int64_t step = 0;
  int64_t bytes = 0;  // total size of all complete checkpoints that are kept
};

// Sent by rank 0 of the first world that trains: the state from which training starts (with a
// message if users should know), and the job's own checkpoint from which it resumes, if any. Sent
// again after every Welcome while the process runs.
struct RankBegan {
  Epoch epoch;
  int rank = 0;
  Beginning beginning;
  std::optional<KeptCheckpoint> kept{};
};

// The slot cannot save or restore a state at present, for the reason in `fault`; an empty fault
// means that it can again. Repeated after every Welcome while the fault lasts.
struct RankProtection {
  int slot = 0;
  std::string what;   // "checkpoint", "snapshot", "copy" or "restore"
  std::string fault;  // a sentence; empty: no fault
};

// --- launcher -> agent -> rank

// Allows a rank to complete the checkpoint that it has written, because the rank is a member of the
// newest world. The agent forwards this message to the rank unchanged.
struct CheckpointGrant {
  Epoch epoch;
  int rank = 0;
  int64_t step = 0;
  int shard = 0;
};

// Requests an unscheduled checkpoint after the next step. Sent to rank 0's agent, which forwards it
// to the rank unchanged. Sent again if no checkpoint is completed.
struct TakeCheckpoint {
  Epoch epoch;
};

// Every rank of the epoch is done. Ranks may exit, with code 0.
struct Release {
  Epoch epoch;
};

// --- the rendezvous store, rank -> agent -> launcher and back. The launcher keeps the values of an
// epoch in memory, and drops them with the epoch.

struct StoreSet {
  Epoch epoch;
  std::string key;
  std::string value;  // bytes; base64 on the wire
};

// Answered by StoreValues with the same id, but only once every key exists. The sender enforces the
// deadline.
struct StoreGet {
  Epoch epoch;
  int64_t id = 0;
  int rank = 0;  // the sender, so that the agent can route the answer
  std::vector<std::string> keys;
};

struct StoreValues {
  Epoch epoch;
  int64_t id = 0;
  int rank = 0;
  std::vector<std::string> values;  // in the order of the requested keys; base64 on the wire.
                                    // Empty: the launcher refused the request
};

}  // namespace ringmaster::control

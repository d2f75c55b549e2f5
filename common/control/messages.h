#pragma once

// What launcher, agent, attach and rank say to each other. One JSON object a line, UTF-8, at most
// kMaxLineBytes with its newline; {"type": "...", ...}. The same framing on all three channels:
//
//   agent  -> launcher   TLS over TCP, the agent dials (connection.h)
//   attach -> agent      unix socket in the worker's runtime directory
//   rank   -> agent      the same unix socket; the first line says which of the two it is
//
// Fields and types that a reader does not know are ignored (README.md, "Versions"); a peer that
// sends a wrong field or a longer line is disconnected; the process goes on. The order of messages
// on each channel is in README.md, too.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/control/kept_checkpoint.h"
#include "common/control/membership.h"

namespace ringmaster::control {

// Room for a world of kMaxRanks one-slot workers whose names are as long as they may be.
inline constexpr std::size_t kMaxLineBytes = 16 << 20;

// What a peer speaks, as its first line says: raised with each addition that the other side has to
// know of. Below kFirstProtocol a peer is refused; a peer that says none speaks that one.
inline constexpr int kProtocolVersion = 3;
inline constexpr int kFirstProtocol = 3;

// Error::reason of a line whose type this version does not know.
inline constexpr char kReasonUnknownType[] = "UnknownType";

// --- agent -> launcher
// ---------------------------------------------------------------------------------------------

// First line of every connection. A wrong token or job ends the connection with Refused.
struct AgentHello {
  int protocol = kProtocolVersion;
  std::string token;
  std::string job_uid;
  std::string pod_uid;
  std::string pod;
  std::string node;
  int worker_index = 0;
  int slots = 1;
  std::string nonce;    // new for every start of the agent process
  Epoch highest_epoch;  // the highest it ever accepted; it refuses lower ones
};

// sshd listens, preflight ran, the trainer is preloaded as far as it goes. Sent once after Welcome,
// again on change.
struct AgentReady {
  std::string address;  // of this worker, as other workers and the launcher reach it
  int ssh_port = 0;
  std::vector<PreflightFault> faults;  // empty: ready
  std::map<std::string, std::string>
      versions;  // "ringmaster", "openmpi", "libtorch", ...; compared across workers
};

// Both ways.
struct Heartbeat {
  // From the launcher: how often the agent is to say it from here on; 0: as it does. The more
  // workers there are, the more seldom each of them.
  int every_millis = 0;
};

// How far the worker's memory volume is filled, while it is (spec.dataCache): once its data was
// measured, then every few seconds while it grows. Again after every Welcome. AgentReady ends
// it.
struct DataCacheProgress {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
};

// The trainer in this slot has loaded its data and model and can join a world. Again after every
// Welcome while it runs.
struct RankReady {
  int slot = 0;
  std::string start;  // Member::start
};

// Answers PrepareEpoch: this worker accepts no lower epoch any more, and its ranks have been told
// to leave them.
struct EpochAccepted {
  Epoch epoch;
};

// After every Welcome, where ranks of our own trainer are in a world: the newest one they were
// started in, and who of this worker's members still runs. A launcher that was started anew learns
// from these what it has to take over, and asks one of them for the members (TellWorld).
struct WorldReport {
  Epoch epoch;
  std::vector<Member> members;       // of all ranks, as it was told them; empty unless asked for
  std::vector<std::string> running;  // Member::start of this worker's living members
};

// A rank cannot go on in its epoch because of its peers. An observation, not evidence of anybody's
// death.
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

// A process that mpirun started has attached to its slot.
struct SlotAttached {
  int64_t cohort = 0;
  int slot = 0;  // local rank on this host
  int mpi_rank = 0;
  int mpi_world_size = 0;
};

// What a rank printed that no attach carries (its mpirun is gone, or it joined later); the launcher
// prints it with the rank's tag. Whole lines.
struct SlotOutput {
  int slot = 0;
  int rank = -1;
  bool is_stderr = false;
  std::string data;  // bytes; base64 on the wire
};

// A rank ended, or a slot's program could not be started (exit_code 127 and the reason in
// last_lines).
struct RankExited {
  Epoch epoch;
  RankExit exit;
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

// Where this worker's ranks of the epoch stand; with every heartbeat while there are any. Only
// ranks that say so (position_page.h), each once.
struct RankPositions {
  Epoch epoch;
  std::vector<RankPosition> ranks;
};

// Where the threads of a rank were that did not go on, before its end is reported.
struct RankStack {
  int slot = 0;
  std::string start;  // Member::start
  std::string reason;
  std::string text;  // at most kMaxStackBytes
};

// The Pod is going away (SIGTERM): take it out of the world. Ranks that end after this are no
// failures.
struct AgentLeaving {
  std::string reason;
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

// Sent by rank 0 of a world that nobody had trained for: what the world begins with (the beginning
// has a message if people should know), and the job's own checkpoint that it resumes from, if any.
// Sent again after every Welcome while the process runs.
struct RankBegan {
  Epoch epoch;
  int rank = 0;
  Beginning beginning;
  std::optional<KeptCheckpoint> kept{};
};

// What a slot cannot keep at present, and why; an empty fault: it can again. Again after every
// Welcome while it holds.
struct RankProtection {
  int slot = 0;
  std::string what;   // "checkpoint", "snapshot", "copy" or "restore"
  std::string fault;  // a sentence
};

// --- launcher -> agent
// ---------------------------------------------------------------------------------------------

struct Welcome {
  int64_t term = 0;
  int heartbeat_millis = 100;
  int protocol = kProtocolVersion;
};

// Why the launcher closes the connection: people read it in the agent's log.
struct Refused {
  std::string reason;
};

// An epoch is about to form (our own trainer): accept no lower one from here on, tell ranks of
// lower ones to leave them with their state, answer EpochAccepted. Ignored below the highest epoch
// accepted; the same one again is answered again.
struct PrepareEpoch {
  Epoch epoch;
};

// Members shall leave this epoch together after the next step that all of them complete, with
// RankAtBoundary. `leaving`: this Pod's will not be in the next one, and hand over before what only
// they hold.
struct SwitchEpoch {
  Epoch epoch;
  bool leaving = false;
};

// The start gate is open: ranks of this epoch run. Sent to every member's agent. Ranks of an
// earlier epoch that are members go on in this one with their state; processes in slots that are no
// members are left alone.
struct StartEpoch {
  Epoch epoch;
  int64_t cohort = 0;
  std::vector<Member> members;  // of all ranks, by rank
};

// StartEpoch, as the difference from a world that this connection was told before
// (world_difference.h). An agent that does not have that one dials again, and is told all of it.
struct ChangeEpoch {
  Epoch epoch;
  int64_t cohort = 0;
  Epoch base;                   // that world
  std::vector<RankRange> left;  // its ranks that are not in this one, rising
  std::vector<Member> joined;   // by rank, after those that stay
};

// Send the WorldReport of this epoch with its members, if that is the newest one.
struct TellWorld {
  Epoch epoch;
};

// End the ranks of all epochs up to this one (SIGTERM, then SIGKILL after the grace period) and
// report their exits.
struct StopEpoch {
  Epoch epoch;
  int grace_millis = 1000;
};

// This rank holds the others up: note where its threads are (RankStack), end it at once and report
// its exit. Nothing happens to another process than the one with this start.
struct EndStalledRank {
  int slot = 0;
  std::string start;  // Member::start
  std::string reason;
};

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

// The job is over: end what still runs and exit 0.
struct Shutdown {};

// --- rendezvous store: rank -> agent -> launcher and back
// ------------------------------------------------------------- Values live in the launcher's
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

// --- attach <-> agent
// --------------------------------------------------------------------------------------------------

// First line of attach.
struct AttachHello {
  int64_t cohort = 0;
  int slot = 0;
  int mpi_rank = 0;
  int mpi_world_size = 0;
  bool direct = false;  // attach runs the program itself (LaunchSpec::IsManagedTrainer is false)
  int protocol = kProtocolVersion;
};

// agent -> attach: the gate is open; for direct programs, start it now.
struct AttachGo {
  Epoch epoch;
  int rank = 0;
};

// agent -> attach: what the rank printed; attach writes it to its own stream of that name.
struct RankOutput {
  bool is_stderr = false;
  std::string data;  // bytes; base64 on the wire
};

// agent -> attach: the rank ended, exit likewise. attach -> agent for direct programs.
struct AttachExit {
  RankExit exit;
};

// --- rank <-> agent
// ------------------------------------------------------------------------------------------------------

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

using Message =
    std::variant<AgentHello, AgentReady, Heartbeat, SlotAttached, RankExited, RankProgress,
                 RankDone, AgentLeaving, Welcome, Refused, StartEpoch, StopEpoch, Release, Shutdown,
                 StoreSet, StoreGet, StoreValues, AttachHello, AttachGo, RankOutput, AttachExit,
                 RankHello, RankEpoch, RankReady, EpochAccepted, WorldReport, RankBroken,
                 RankAtBoundary, SlotOutput, PrepareEpoch, SwitchEpoch, RankLeave, RankSwitch,
                 RankPositions, RankStack, EndStalledRank, CheckpointWritten, CheckpointDone,
                 RankProtection, CheckpointGrant, DataCacheProgress, TakeCheckpoint, RankBegan,
                 TellWorld, ChangeEpoch>;

// One line without its newline. Never fails: bytes that are no UTF-8 in text fields are replaced.
std::string Encode(const Message& message);

// The message in a line without its newline. kInvalid names the field that is wrong; a type that is
// not known has the reason kReasonUnknownType, so that the reader can pass over the line. Safe on
// any bytes.
Result<Message> Decode(std::string_view line);

// The message's type as written on the wire, for logs.
std::string_view TypeName(const Message& message);

}  // namespace ringmaster::control

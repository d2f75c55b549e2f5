#pragma once

// The messages between launcher, agent, attach, rank and rsh: one JSON object per line, {"type":
// "...", ...}, in UTF-8, at most kMaxLineBytes with its newline. All four channels share the
// framing:
//
//   agent  -> launcher   TLS over TCP, the agent dials: agent_launcher_messages.h
//   attach -> agent      unix socket in the worker's runtime directory: attach_agent_messages.h
//   rank   -> agent      the same unix socket; the first line tells attach and rank apart:
//                        rank_agent_messages.h
//   rsh    -> launcher   the launcher's unix socket: rsh_launcher_messages.h
//
// Readers ignore fields and types that they do not know (README.md, "Versions"). A peer that sends
// an invalid field or a longer line is disconnected. protocol.md describes the order of messages.

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/result.h"
#include "common/control/agent_launcher_messages.h"
#include "common/control/attach_agent_messages.h"
#include "common/control/rank_agent_messages.h"
#include "common/control/rsh_launcher_messages.h"

namespace ringmaster::control {

// Room for a world of kMaxRanks one-slot workers whose names have the maximum length.
inline constexpr std::size_t kMaxLineBytes = 16 << 20;

// Error::reason of a line whose type this version does not know.
inline constexpr char kReasonUnknownType[] = "UnknownType";

using Message =
    std::variant<AgentHello, AgentReady, Heartbeat, SlotAttached, RankExited, RankProgress,
                 RankDone, AgentLeaving, Welcome, Refused, StartEpoch, StopEpoch, Release, Shutdown,
                 StoreSet, StoreGet, StoreValues, AttachHello, AttachGo, RankOutput, AttachExit,
                 RankHello, RankEpoch, RankReady, EpochAccepted, WorldReport, RankBroken,
                 RankAtBoundary, SlotOutput, PrepareEpoch, SwitchEpoch, RankLeave, RankSwitch,
                 RankPositions, RankStack, EndStalledRank, CheckpointWritten, CheckpointDone,
                 RankProtection, CheckpointGrant, DataCacheProgress, TakeCheckpoint, RankBegan,
                 TellWorld, ChangeEpoch, RunCommand, EndCommand, CommandOutput, CommandExited,
                 RshHello, AttachStarted>;

// Returns one line without its newline. Never fails: replaces invalid UTF-8 in text fields.
std::string Encode(const Message& message);

// Decodes a line without its newline. kInvalid names the field that is wrong. An unknown type
// has the reason kReasonUnknownType, so that the reader can skip the line. Accepts any bytes
// safely.
Result<Message> Decode(std::string_view line);

// The message's type as written on the wire, for logs.
std::string_view TypeName(const Message& message);

}  // namespace ringmaster::control

#pragma once

// Plays the agent's side of a rank's transcript to the trainer's own client (AgentMembership),
// makes it act as the transcript's rank does, and compares its messages. A second implementation of
// the rank's side needs a player like this one.

#include <string>

#include "tests/transcripts/transcript.h"

namespace ringmaster::transcripts {

// Describes the first difference from the transcript; empty: there is none.
std::string ReplayRank(const Transcript& transcript);

}  // namespace ringmaster::transcripts

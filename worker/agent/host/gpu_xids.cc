#include "worker/agent/host/gpu_xids.h"

#include <algorithm>
#include <array>

namespace ringmaster::agent {
namespace {

struct FatalXid {
  int xid;
  const char* words;
};

// Xids whose immediate action, according to NVIDIA, is to reset the GPU, restart the machine or
// replace the board. Source: excerpts of docs.nvidia.com/deploy/xid-errors, without some Xids.
constexpr std::array kFatalXids{
    FatalXid{48, "an uncorrectable memory error (ECC)"},
    FatalXid{62, "its microcontroller halted"},
    FatalXid{64, "no spare memory row is left for row remapping"},
    FatalXid{79, "the GPU has fallen off the bus"},
    FatalXid{95, "an uncontained memory error (ECC)"},
    FatalXid{119, "its firmware does not answer (GSP)"},
    FatalXid{120, "its firmware failed (GSP)"},
    FatalXid{140, "an unrecovered memory error (ECC)"},
    FatalXid{143, "the GPU could not be initialised"},
};

const FatalXid* FindXid(int xid) {
  const auto found =
      std::ranges::find_if(kFatalXids, [xid](const FatalXid& one) { return one.xid == xid; });
  return found == kFatalXids.end() ? nullptr : &*found;
}

}  // namespace

bool IsFatalXid(int xid) { return FindXid(xid) != nullptr; }

std::string XidText(int xid) {
  const FatalXid* const fatal = FindXid(xid);
  return "Xid " + std::to_string(xid) +
         (fatal == nullptr ? "" : " (" + std::string(fatal->words) + ")");
}

}  // namespace ringmaster::agent

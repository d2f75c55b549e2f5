// Fuzzes the decoders of orders, statuses, verdicts and launch specs. Byte 0 selects the decoder.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/control/launch_spec.h"
#include "common/control/launcher_api.h"
#include "common/control/verdict.h"

namespace {

using namespace ringmaster::control;

template <typename Decode, typename Encode>
void RoundTrip(std::string_view text, Decode decode, Encode encode) {
  const auto value = decode(text);
  if (!value.ok()) return;
  const std::string written = encode(*value);
  const auto again = decode(written);
  if (!again.ok() || encode(*again) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      RoundTrip(text, DecodeOrder, EncodeOrder);
      break;
    case 1:
      RoundTrip(text, DecodeLauncherStatus, EncodeLauncherStatus);
      break;
    case 2:
      RoundTrip(text, DecodeLaunchSpec, EncodeLaunchSpec);
      break;
    default: {
      const auto verdict = DecodeVerdict(text);
      if (!verdict.ok()) break;
      // Encoding may shorten the verdict, but the result must fit the size limit and decode.
      const std::string written = EncodeVerdict(*verdict);
      if (written.size() > kMaxVerdictBytes || !DecodeVerdict(written).ok()) std::abort();
    }
  }
  return 0;
}

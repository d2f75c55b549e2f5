#include "worker/launcher/mpi/tagged_output.h"

namespace ringmaster::launcher {

std::string TagLines(const std::string& whose, bool is_stderr, std::string_view data) {
  const std::string tag = "[" + whose + (is_stderr ? "]<stderr>: " : "]<stdout>: ");
  std::string tagged;
  while (!data.empty()) {
    const std::size_t end = data.find('\n');
    tagged += tag;
    tagged += data.substr(0, end);
    tagged += '\n';
    data.remove_prefix(end == std::string_view::npos ? data.size() : end + 1);
  }
  return tagged;
}

}  // namespace ringmaster::launcher

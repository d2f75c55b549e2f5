#include "worker/launcher/rsh/rsh.h"

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "common/control/blocking_line_client.h"
#include "common/control/messages.h"
#include "common/process/captured_process.h"

namespace ringmaster::launcher {
namespace {

constexpr char kSocketFlag[] = "--socket=";
constexpr std::chrono::seconds kSendLimit{10};
constexpr std::chrono::minutes kLookAgain{1};
constexpr char kUsage[] = "; usage: ringmaster-rsh --socket=PATH HOST COMMAND...";

Error Wrong(const std::string& what) { return Error{ErrorKind::kInvalid, what + kUsage}; }

int NotReached(const RshRequest& request, const std::string& reason) {
  PassThrough(true, "ringmaster-rsh: " + request.host + ": " + reason + '\n');
  return kExitNotReached;
}

}  // namespace

Result<RshRequest> ReadRshArguments(const std::vector<std::string>& arguments) {
  RshRequest request;
  auto word = arguments.begin();
  for (; word != arguments.end() && word->starts_with('-'); ++word) {
    if (!word->starts_with(kSocketFlag)) return Wrong("unknown option \"" + *word + '"');
    request.socket = word->substr(sizeof kSocketFlag - 1);
  }
  if (request.socket.empty()) return Wrong("--socket is missing");
  if (word == arguments.end()) return Wrong("the host is missing");
  request.host = *word++;
  if (word == arguments.end()) return Wrong("the command is missing");
  for (; word != arguments.end(); ++word) {
    request.command += (request.command.empty() ? "" : " ") + *word;
  }
  if (request.command.size() > control::kMaxCommandBytes) {
    return Error{ErrorKind::kInvalid, "the command has " + std::to_string(request.command.size()) +
                                          " bytes, but a shell accepts at most " +
                                          std::to_string(control::kMaxCommandBytes)};
  }
  return request;
}

int RunRemotely(const RshRequest& request) {
  const auto in = [](auto limit) { return std::chrono::steady_clock::now() + limit; };
  auto launcher = control::BlockingLineClient::Connect(request.socket);
  if (!launcher.ok()) {
    return NotReached(request, "the launcher does not answer: " + launcher.error().message);
  }
  const control::RshHello hello{.host = request.host, .command = request.command};
  if (Result<void> sent = (*launcher)->Send(hello, in(kSendLimit)); !sent.ok()) {
    return NotReached(request, "the launcher is not listening: " + sent.error().message);
  }
  while (true) {
    const Result<control::Message> message = (*launcher)->Receive(in(kLookAgain));
    if (!message.ok() && message.error().kind == ErrorKind::kTimeout) continue;
    if (!message.ok())
      return NotReached(request, "lost the launcher while the command was running");
    if (const auto* output = std::get_if<control::CommandOutput>(&*message)) {
      PassThrough(output->is_stderr, output->data);
    } else if (const auto* exited = std::get_if<control::CommandExited>(&*message)) {
      if (!exited->fault.empty()) return NotReached(request, exited->fault);
      return exited->signal != 0 ? 128 + exited->signal : exited->exit_code;
    } else if (const auto* refused = std::get_if<control::Refused>(&*message)) {
      return NotReached(request, refused->reason);
    }
  }
}

}  // namespace ringmaster::launcher

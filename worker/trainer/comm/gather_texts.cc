#include "worker/trainer/comm/gather_texts.h"

#include <cstdint>
#include <numeric>
#include <span>

namespace ringmaster::trainer {

Result<std::vector<std::string>> GatherTexts(Communicator& communicator, const std::string& mine,
                                             Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const uint64_t size = mine.size();
  std::vector<uint64_t> sizes(ranks);
  const auto sized = communicator.AllGather(std::as_bytes(std::span(&size, 1)),
                                            std::as_writable_bytes(std::span(sizes)), deadline);
  if (auto done = WaitConfirmed(communicator, sized); !done.ok()) return done.error();
  std::vector<std::size_t> send(ranks);
  send[0] = mine.size();
  std::vector<std::size_t> receive(ranks);
  if (communicator.rank() == 0) receive.assign(sizes.begin(), sizes.end());
  std::string all(std::accumulate(receive.begin(), receive.end(), std::size_t{0}), '\0');
  const auto moved =
      communicator.AllToAll(std::as_bytes(std::span(mine)), std::move(send),
                            std::as_writable_bytes(std::span(all)), receive, deadline);
  if (auto done = WaitConfirmed(communicator, moved); !done.ok()) return done.error();
  std::vector<std::string> texts;
  if (communicator.rank() != 0) return texts;
  std::size_t begin = 0;
  for (const std::size_t length : receive) {
    texts.push_back(all.substr(begin, length));
    begin += length;
  }
  return texts;
}

}  // namespace ringmaster::trainer

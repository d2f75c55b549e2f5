#pragma once

// Implements LineConnection for any Asio stream. Private to line_connection.cc and its
// tests.

#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "common/base/log.h"
#include "common/control/line_connection.h"

namespace ringmaster::control {

template <typename Stream>
class LineStream final : public LineConnection,
                         public std::enable_shared_from_this<LineStream<Stream>> {
 public:
  LineStream(Stream stream, std::string peer, const LineLimits& limits)
      : stream_(std::move(stream)),
        linger_(stream_.get_executor()),
        peer_(std::move(peer)),
        limits_(limits),
        buffer_(kReadBytes) {}

  void Start(Handlers handlers) override {
    handlers_ = std::move(handlers);
    started_ = true;
    if (state_ == State::kClosed) return ReportClosed();
    Read();
  }

  void Send(const Message& message) override {
    if (state_ != State::kOpen) return;
    std::string line = Encode(message);
    line += '\n';
    if (!MayQueue(TypeName(message), line.size())) return;
    const bool joins = !queue_.empty() && queue_.back().shared == nullptr &&
                       queue_.back().own.size() + line.size() <= kJoinedBytes;
    if (joins) {
      queue_.back().own += line;
    } else {
      queue_.push_back({std::move(line), nullptr});
    }
    WriteSoon();
  }

  void SendNow(const Message& message) override {
    if (writing_) return Send(message);
    if (state_ != State::kOpen) return;
    const std::string line = Encode(message) + '\n';
    if (!MayQueue(TypeName(message), line.size())) return;
    boost::system::error_code error;
    boost::asio::write(stream_, boost::asio::buffer(line), error);
    queued_bytes_ -= line.size();
    if (error) Close("the connection broke: " + error.message());
  }

  void SendShared(const SharedLine& line) override {
    if (state_ != State::kOpen || !MayQueue(line.type, line.text->size())) return;
    if (line.text->size() < kJoinedBytes && !queue_.empty() && queue_.back().shared == nullptr) {
      queue_.back().own += *line.text;
    } else {
      queue_.push_back({{}, line.text});
    }
    WriteSoon();
  }

  void Close(const std::string& reason) override {
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    reason_ = finish_reason_.empty() ? reason : finish_reason_;
    boost::system::error_code ignored;
    Socket().close(ignored);
    linger_.cancel();
    if (started_) ReportClosed();
  }

  void Finish(const std::string& reason) override {
    if (state_ != State::kOpen) return;
    state_ = State::kFinishing;
    finish_reason_ = reason;
    if (!writing_) return EndSending();
    CloseAfter(kSendLimit);
  }

  void SetMaxLineBytes(std::size_t bytes) override { limits_.max_line_bytes = bytes; }

  bool open() const override { return state_ == State::kOpen; }
  std::size_t queued_bytes() const override { return queued_bytes_; }
  const std::string& peer() const override { return peer_; }

  std::optional<UnixPeer> unix_peer() const override {
    if constexpr (std::is_same_v<Stream, boost::asio::local::stream_protocol::socket>) {
      ucred credentials{};
      socklen_t size = sizeof credentials;
      Stream& socket = const_cast<Stream&>(stream_);  // Asio's native_handle() is not const
      if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
        return UnixPeer{credentials.pid, credentials.uid};
      }
    }
    return std::nullopt;
  }

 private:
  enum class State { kOpen, kFinishing, kClosed };
  static constexpr std::size_t kReadBytes = 16 << 10;    // the size of one TLS record
  static constexpr std::size_t kJoinedBytes = 16 << 10;  // maximum size of the lines in one write
  // Time limits while a connection finishes: for each write, and for the peer to close.
  static constexpr std::chrono::seconds kSendLimit{5};
  static constexpr std::chrono::seconds kCloseLimit{1};

  // Data of one write: lines of this connection, or one line that many connections share.
  struct Piece {
    std::string own;
    std::shared_ptr<const std::string> shared;

    const std::string& bytes() const { return shared == nullptr ? own : *shared; }
  };

  bool MayQueue(std::string_view type, std::size_t bytes) {
    if (bytes > limits_.max_line_bytes) {
      Close("a " + std::string(type) + " message of " + std::to_string(bytes) +
            " bytes exceeds the maximum line length");
      return false;
    }
    if (queued_bytes_ + bytes > limits_.max_queued_bytes) {
      Close("the peer reads too slowly: " + std::to_string(queued_bytes_) + " bytes are queued");
      return false;
    }
    queued_bytes_ += bytes;
    return true;
  }

  // Writes after the calling handler has returned, so that all its messages go out in one write.
  void WriteSoon() {
    if (std::exchange(writing_, true)) return;
    boost::asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
      if (self->state_ != State::kClosed) self->Write();
    });
  }

  auto& Socket() { return stream_.lowest_layer(); }

  void Read() {
    stream_.async_read_some(
        boost::asio::buffer(buffer_),
        [self = this->shared_from_this()](const boost::system::error_code& error, std::size_t n) {
          self->OnRead(error, n);
        });
  }

  void OnRead(const boost::system::error_code& error, std::size_t count) {
    if (state_ == State::kClosed) return;
    if (error) return Close(CloseReason(error));
    if (state_ == State::kOpen) TakeLines(count);
    if (state_ != State::kClosed) Read();
  }

  static std::string CloseReason(const boost::system::error_code& error) {
    // Peers close without a TLS shutdown. A truncated stream is not an error here, because every
    // message is a whole line.
    if (error == boost::asio::error::eof || error == boost::asio::ssl::error::stream_truncated) {
      return "the peer closed the connection";
    }
    return "the connection broke: " + error.message();
  }

  void TakeLines(std::size_t count) {
    std::size_t begin = 0;
    while (state_ == State::kOpen) {
      const auto* newline =
          static_cast<const char*>(std::memchr(buffer_.data() + begin, '\n', count - begin));
      const std::size_t end =
          newline == nullptr ? count : static_cast<std::size_t>(newline - buffer_.data());
      if (partial_.size() + (end - begin) + 1 > limits_.max_line_bytes) {
        return Close("the peer sent a line longer than " + std::to_string(limits_.max_line_bytes) +
                     " bytes");
      }
      partial_.append(buffer_.data() + begin, end - begin);
      if (newline == nullptr) return;
      begin = end + 1;
      Deliver();
    }
  }

  void Deliver() {
    Result<Message> message = Decode(partial_);
    partial_.clear();
    // Skips message types that a newer peer added. A newer peer sends a message that must be
    // understood only if the version in this side's hello includes it.
    if (!message.ok() && message.error().reason == kReasonUnknownType) {
      return LogDebug("Skipped a line", {{"peer", peer_}, {"reason", message.error().message}});
    }
    if (!message.ok()) return Close("the peer sent an invalid line: " + message.error().message);
    // Call a copy of the handler: the handler may close the connection, which destroys handlers_.
    if (const auto on_message = handlers_.on_message) on_message(std::move(*message));
  }

  void Write() {
    in_flight_ = std::move(queue_.front());
    queue_.pop_front();
    boost::asio::async_write(
        stream_, boost::asio::buffer(in_flight_.bytes()),
        [self = this->shared_from_this()](const boost::system::error_code& error, std::size_t) {
          self->OnWritten(error);
        });
  }

  void OnWritten(const boost::system::error_code& error) {
    if (state_ == State::kClosed) return;
    if (error) return Close("the connection broke: " + error.message());
    queued_bytes_ -= in_flight_.bytes().size();
    in_flight_ = {};
    if (!queue_.empty()) {
      if (state_ == State::kFinishing) CloseAfter(kSendLimit);
      return Write();
    }
    writing_ = false;
    if (state_ == State::kFinishing) return EndSending();
    if (const auto on_drained = handlers_.on_drained) on_drained();
  }

  void CloseAfter(std::chrono::seconds limit) {
    linger_.expires_after(limit);
    linger_.async_wait([self = this->shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->Close(self->finish_reason_);
    });
  }

  void EndSending() {
    CloseAfter(kCloseLimit);
    boost::system::error_code error;
    Socket().shutdown(boost::asio::socket_base::shutdown_send, error);
    if (error) return Close(finish_reason_);
    // A refused connection has not been read so far. Read from it to notice when the peer closes,
    // instead of waiting for the timer.
    if (!started_) Start({});
  }

  void ReportClosed() {
    Handlers handlers = std::exchange(handlers_, {});
    if (!handlers.on_closed) return;
    boost::asio::post(stream_.get_executor(), [on_closed = std::move(handlers.on_closed),
                                               reason = reason_] { on_closed(reason); });
  }

  Stream stream_;
  boost::asio::steady_timer linger_;
  const std::string peer_;
  LineLimits limits_;

  Handlers handlers_;
  State state_ = State::kOpen;
  bool started_ = false;
  std::string reason_;
  std::string finish_reason_;

  std::vector<char> buffer_;
  std::string partial_;  // the line being read

  bool writing_ = false;     // also true if a write is posted but has not begun
  std::deque<Piece> queue_;  // pieces that wait until in_flight_ is written
  Piece in_flight_;
  std::size_t queued_bytes_ = 0;
};

}  // namespace ringmaster::control

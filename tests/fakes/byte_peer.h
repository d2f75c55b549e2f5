#pragma once

// A client of a loopback port that sends and reads arbitrary bytes, unlike our own clients. Header
// only; single-threaded.

#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

namespace ringmaster::testing {

class BytePeer {
 public:
  explicit BytePeer(int port) {
    boost::system::error_code error;
    socket_.connect({boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)},
                    error);
    EXPECT_FALSE(error) << error.message();
  }
  // Returns false if the other side has closed.
  bool Send(const std::string& bytes) {
    boost::system::error_code error;
    boost::asio::write(socket_, boost::asio::buffer(bytes), error);
    return !error;
  }
  // Returns the bytes up to and including the next `end`; empty if the other side closes first.
  std::string ReadUpTo(const std::string& end) {
    boost::system::error_code error;
    const std::size_t size =
        boost::asio::read_until(socket_, boost::asio::dynamic_buffer(unread_), end, error);
    const std::string read = unread_.substr(0, size);
    unread_.erase(0, size);
    return read;
  }
  std::string ReadToEnd() {
    boost::system::error_code end;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(unread_), end);
    return std::exchange(unread_, {});
  }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_{io_};
  std::string unread_;
};

}  // namespace ringmaster::testing

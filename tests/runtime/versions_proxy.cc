// A proxy between two peers of the agents' protocol. It simulates peers of other versions. A file,
// which it reads for every line, sets the mode: "newer" adds unknown fields and messages, "older"
// removes optional fields, and any other mode passes lines unchanged.
//
//   versions_proxy MODE-FILE tls PORT KEY CERTIFICATE ADDRESS:PORT     agents -> launcher
//   versions_proxy MODE-FILE unix SOCKET AGENT-SOCKET                  one rank -> agent

#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>

#include "tests/fakes/other_version.h"

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;

std::string g_mode_file;

// Returns the text to pass on for a line: one or more lines, each with its newline.
std::string Translate(const std::string& line, bool first) {
  std::string mode;
  std::ifstream(g_mode_file) >> mode;
  if (mode == "older") return ringmaster::LineAsOlder(line) + '\n';
  if (mode != "newer") return line + '\n';
  const std::string more = first ? "" : ringmaster::UnknownLine() + '\n';
  return more + ringmaster::AsNewer(line) + '\n';
}

// Two streams that are connected to each other. If one ends, the other is closed.
template <typename Stream>
class Pair : public std::enable_shared_from_this<Pair<Stream>> {
 public:
  Pair(Stream from, Stream to) : down_(std::move(from)), up_(std::move(to)) {}

  Stream& down() { return down_.stream; }
  Stream& up() { return up_.stream; }
  void Run() {
    Read(down_, up_);
    Read(up_, down_);
  }

 private:
  struct End {
    explicit End(Stream taken) : stream(std::move(taken)) {}
    Stream stream;
    asio::streambuf heard;
    std::string said;
    bool first = true;
  };

  void Read(End& from, End& to) {
    asio::async_read_until(from.stream, from.heard, '\n',
                           [self = this->shared_from_this(), this, &from, &to](
                               const error_code& error, std::size_t size) {
                             if (error) return Close();
                             const auto* data = static_cast<const char*>(from.heard.data().data());
                             to.said = Translate(std::string(data, size - 1),
                                                 std::exchange(from.first, false));
                             from.heard.consume(size);
                             Write(from, to);
                           });
  }
  void Write(End& from, End& to) {
    asio::async_write(
        to.stream, asio::buffer(to.said),
        [self = this->shared_from_this(), this, &from, &to](const error_code& error, std::size_t) {
          if (error) return Close();
          Read(from, to);
        });
  }
  void Close() {
    error_code ignored;
    down_.stream.lowest_layer().close(ignored);
    up_.stream.lowest_layer().close(ignored);
  }

  End down_;
  End up_;
};

using TlsStream = asio::ssl::stream<tcp::socket>;

class TlsProxy {
 public:
  TlsProxy(asio::io_context& io, const std::vector<std::string>& words)
      : io_(io), acceptor_(io, {tcp::v4(), static_cast<unsigned short>(std::stoi(words.at(0)))}) {
    server_.use_certificate_chain_file(words.at(2));
    server_.use_private_key_file(words.at(1), asio::ssl::context::pem);
    const std::string& launcher = words.at(3);
    const std::size_t colon = launcher.find(':');
    launcher_ = {asio::ip::make_address(launcher.substr(0, colon)),
                 static_cast<unsigned short>(std::stoi(launcher.substr(colon + 1)))};
  }

  void Accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (!error) Serve(std::move(socket));
      Accept();
    });
  }

 private:
  // If the launcher does not listen, closes the agent's connection, so that the agent redials.
  void Serve(tcp::socket socket) {
    auto pair = std::make_shared<Pair<TlsStream>>(TlsStream(std::move(socket), server_),
                                                  TlsStream(tcp::socket(io_), client_));
    pair->up().lowest_layer().async_connect(launcher_, [pair](const error_code& error) {
      if (error) return;
      pair->up().async_handshake(asio::ssl::stream_base::client, [pair](const error_code& failed) {
        if (failed) return;
        pair->down().async_handshake(asio::ssl::stream_base::server,
                                     [pair](const error_code& refused) {
                                       if (!refused) pair->Run();
                                     });
      });
    });
  }

  asio::io_context& io_;
  asio::ssl::context server_{asio::ssl::context::tls_server};
  asio::ssl::context client_{asio::ssl::context::tls_client};
  tcp::acceptor acceptor_;
  tcp::endpoint launcher_;
};

int ServeRank(asio::io_context& io, const std::vector<std::string>& words) {
  std::remove(words.at(0).c_str());
  stream_protocol::acceptor acceptor(io, stream_protocol::endpoint(words.at(0)));
  std::printf("listens\n");  // tells the test that the rank can start
  std::fclose(stdout);
  stream_protocol::socket rank = acceptor.accept();
  stream_protocol::socket agent(io);
  agent.connect(stream_protocol::endpoint(words.at(1)));
  std::make_shared<Pair<stream_protocol::socket>>(std::move(rank), std::move(agent))->Run();
  io.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  g_mode_file = words.at(0);
  const std::vector<std::string> rest(words.begin() + 2, words.end());
  asio::io_context io;
  if (words.at(1) == "unix") return ServeRank(io, rest);
  TlsProxy proxy(io, rest);
  proxy.Accept();
  io.run();
  return 0;
}

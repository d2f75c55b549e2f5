// Tests that a probe distinguishes a port that refuses connections from one that listens.

#include "worker/launcher/app/port_probe.h"

#include <boost/asio/ip/tcp.hpp>
#include <gtest/gtest.h>

namespace ringmaster::launcher {
namespace {

namespace asio = boost::asio;

class PortProbes : public testing::Test {
 protected:
  bool Refused(const std::string& address, int port) {
    bool answered = false;
    bool refused = false;
    PortProbe probe(io);
    probe.Ask(address, port, [&](bool answer) {
      answered = true;
      refused = answer;
    });
    io.restart();
    io.run();
    EXPECT_TRUE(answered);
    return refused;
  }

  asio::io_context io;
  asio::ip::tcp::acceptor listener{io, {asio::ip::make_address("127.0.0.1"), 0}};
};

TEST_F(PortProbes, AListeningPortIsNotRefused) {
  EXPECT_FALSE(Refused("127.0.0.1", listener.local_endpoint().port()));
}

TEST_F(PortProbes, AClosedPortIs) {
  const int port = listener.local_endpoint().port();
  listener.close();

  EXPECT_TRUE(Refused("127.0.0.1", port));
}

TEST_F(PortProbes, ReportsNothingForAnInvalidAddress) {
  EXPECT_FALSE(Refused("not-an-address", 22));
  EXPECT_FALSE(Refused("127.0.0.1", 0));
}

TEST_F(PortProbes, DoesNotAnswerOnceItIsDestroyed) {
  {
    PortProbe probe(io);
    probe.Ask("127.0.0.1", listener.local_endpoint().port(), [](bool) { FAIL(); });
  }
  io.run();
}

}  // namespace
}  // namespace ringmaster::launcher

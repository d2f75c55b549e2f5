#include "worker/agent/host/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/udp.hpp>

namespace ringmaster::agent {
namespace {

using boost::asio::ip::udp;

// Connecting a UDP socket looks up the route and sends nothing.
Result<std::string> AddressByRoute(const std::string& launcher_address) {
  boost::asio::io_context io;
  udp::socket socket(io);
  boost::system::error_code error;
  const auto launcher = boost::asio::ip::make_address(launcher_address, error);
  const udp::endpoint endpoint(launcher, 9);
  if (!error) socket.open(endpoint.protocol(), error);
  if (!error) socket.connect(endpoint, error);
  udp::endpoint local;
  if (!error) local = socket.local_endpoint(error);
  if (error) {
    return Error{ErrorKind::kUnavailable, "no route to the launcher at " + launcher_address + " (" +
                                              error.message() +
                                              "); name the interface in spec.network.interface"};
  }
  return local.address().to_string();
}

std::string AddressText(const sockaddr* address, int family) {
  char text[INET6_ADDRSTRLEN] = "";
  const void* bytes = nullptr;
  if (family == AF_INET) bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (family == AF_INET6) bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return bytes != nullptr && inet_ntop(family, bytes, text, sizeof text) != nullptr ? text : "";
}

Result<std::string> AddressOfInterface(const std::string& interface, int family) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return Error{ErrorKind::kInternal, "the kernel does not list the network interfaces"};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::string names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string name = entry->ifa_name;
    if ((' ' + names + ' ').find(' ' + name + ' ') == std::string::npos) {
      names += (names.empty() ? "" : " ") + name;
    }
    if (name != interface || entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    if (entry->ifa_addr->sa_family == family) return AddressText(entry->ifa_addr, family);
  }
  return Error{ErrorKind::kNotFound, "the interface \"" + interface +
                                         "\" of spec.network.interface is not there, down or "
                                         "without an address; this worker has: " +
                                         names};
}

}  // namespace

Result<std::string> FindAddress(const std::string& launcher_address, const std::string& interface) {
  if (interface.empty()) return AddressByRoute(launcher_address);
  const bool is_v6 = launcher_address.find(':') != std::string::npos;
  return AddressOfInterface(interface, is_v6 ? AF_INET6 : AF_INET);
}

}  // namespace ringmaster::agent

#include "worker/agent/host/address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>

namespace ringmaster::agent {
namespace {

using boost::asio::ip::tcp;
using boost::asio::ip::udp;

// Finds the address by connecting a UDP socket, which looks up the route and sends nothing.
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
                                              "); name the interface in spec.network.interfaces"};
  }
  return local.address().to_string();
}

// Formats an address. Returns an empty text for other families and for link-local addresses.
std::string AddressText(const sockaddr* address, int family) {
  if (address == nullptr || address->sa_family != family) return "";
  char text[INET6_ADDRSTRLEN] = "";
  const void* bytes = nullptr;
  if (family == AF_INET) bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&ip)) return "";
    bytes = &ip;
  }
  return bytes != nullptr && inet_ntop(family, bytes, text, sizeof text) != nullptr ? text : "";
}

Result<std::vector<InterfaceAddress>> AddressesOfHost(int family) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return Error{ErrorKind::kInternal, "failed to list the network interfaces"};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<InterfaceAddress> here;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string address = AddressText(entry->ifa_addr, family);
    if (address.empty() || (entry->ifa_flags & IFF_UP) == 0) continue;
    here.push_back({.interface = entry->ifa_name,
                    .address = address,
                    .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return here;
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string NamesOf(const std::vector<InterfaceAddress>& here) {
  std::vector<std::string> names;
  for (const InterfaceAddress& one : here) {
    if (!Contains(names, one.interface)) names.push_back(one.interface);
  }
  return names.empty() ? "none" : control::InterfaceList(names);
}

}  // namespace

Result<std::string> ChooseAddress(const std::vector<InterfaceAddress>& here,
                                  const Result<std::string>& routed,
                                  const control::Interfaces& interfaces) {
  std::string first;
  for (const std::string& name : interfaces.include) {
    const auto found = std::find_if(here.begin(), here.end(), [&](const InterfaceAddress& one) {
      return one.interface == name;
    });
    if (found == here.end()) {
      return Error{ErrorKind::kNotFound,
                   "the interface \"" + name +
                       "\" of spec.network.interfaces is missing, down or without an address; "
                       "interfaces of this worker with an address: " +
                       NamesOf(here)};
    }
    if (first.empty()) first = found->address;
  }
  if (!first.empty()) return first;
  const auto usable = [&](const InterfaceAddress& one) {
    return !Contains(interfaces.exclude, one.interface);
  };
  const bool excluded =
      routed.ok() && std::any_of(here.begin(), here.end(), [&](const InterfaceAddress& one) {
        return one.address == *routed && !usable(one);
      });
  if (!excluded) return routed;
  for (const InterfaceAddress& one : here) {
    if (usable(one) && !one.loopback) return one.address;
  }
  return Error{ErrorKind::kNotFound,
               "spec.network.excludeInterfaces excludes all interfaces of this worker; interfaces "
               "with an address: " +
                   NamesOf(here)};
}

Result<std::string> FindAddress(const std::string& launcher_address,
                                const control::Interfaces& interfaces) {
  if (interfaces == control::Interfaces{}) return AddressByRoute(launcher_address);
  const bool is_v6 = launcher_address.find(':') != std::string::npos;
  const auto here = AddressesOfHost(is_v6 ? AF_INET6 : AF_INET);
  if (!here.ok()) return here.error();
  return ChooseAddress(*here, AddressByRoute(launcher_address), interfaces);
}

// Tries to listen like PyTorch and JAX: with one socket for IPv4 and IPv6, or only on IPv4.
bool PortIsFree(int port) {
  boost::asio::io_context io;
  tcp::acceptor listener(io);
  boost::system::error_code error;
  tcp protocol = tcp::v6();
  if (listener.open(protocol, error)) listener.open(protocol = tcp::v4(), error);
  if (error) return true;  // assume that it is free: it cannot be checked
  listener.set_option(tcp::acceptor::reuse_address(true), error);
  listener.bind({protocol, static_cast<uint16_t>(port)}, error);
  return error != boost::asio::error::address_in_use;
}

}  // namespace ringmaster::agent

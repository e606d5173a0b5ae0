#include "wmtp/core/rng.h"

#include <cmath>
#include <numbers>

#include "wmtp/core/checksum.h"

namespace wmtp {

PhiloxWords philox4x32_10(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  constexpr std::uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  PhiloxWords c{low(index), high(index), low(stream), high(stream)};
  std::uint32_t key0 = low(seed), key1 = high(seed);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMul0} * c[0], p1 = std::uint64_t{kMul1} * c[2];
    c = {high(p1) ^ c[1] ^ key0, low(p1), high(p0) ^ c[3] ^ key1, low(p0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

std::uint64_t stream_id(std::string_view name) {
  const Sha256Digest digest = sha256(name);
  std::uint64_t id = 0;
  for (int i = 7; i >= 0; --i) id = id << 8 | digest[static_cast<std::size_t>(i)];
  return id;
}

std::array<double, 4> four_normals(const PhiloxWords& words) {
  std::array<double, 4> out{};
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2.0 * std::log(unit_uniform(words[pair])));
    const double angle = 2.0 * std::numbers::pi * unit_uniform(words[pair + 1]);
    out[pair] = radius * std::cos(angle);
    out[pair + 1] = radius * std::sin(angle);
  }
  return out;
}

std::uint64_t RngStream::below(std::uint64_t n) {
  const std::uint64_t threshold = (0 - n) % n;
  for (;;) {
    const PhiloxWords words = next();
    const std::uint64_t x = words[0] | std::uint64_t{words[1]} << 32;
    __extension__ using Wide = unsigned __int128;
    const Wide m = static_cast<Wide>(x) * n;
    if (static_cast<std::uint64_t>(m) >= threshold) return static_cast<std::uint64_t>(m >> 64);
  }
}

}  // namespace wmtp

#include "wmtp/kernels/codes/dynamic_map.h"

#include <bit>

#include "wmtp/kernels/codes/dynamic_map_bits.h"

namespace wmtp::kernels {
namespace {

constexpr DynamicMap floats_of_bits(const DynamicMapBits& bits) {
  DynamicMap map{};
  for (std::size_t i = 0; i < map.size(); ++i) map[i] = std::bit_cast<float>(bits.value[i]);
  return map;
}

constexpr DynamicMap kSignedMap = floats_of_bits(kSignedMapBits);
constexpr DynamicMap kUnsignedMap = floats_of_bits(kUnsignedMapBits);

}  // namespace

const DynamicMap& signed_dynamic_map() {
  return kSignedMap;
}

const DynamicMap& unsigned_dynamic_map() {
  return kUnsignedMap;
}

}  // namespace wmtp::kernels

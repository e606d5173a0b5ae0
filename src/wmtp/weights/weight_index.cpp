#include "wmtp/weights/weight_index.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/foreign_json.h"
#include "wmtp/core/planted_fault.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::weights {
namespace {

constexpr JsonLimits kIndexLimits{std::size_t{64} << 20, 4};
constexpr std::size_t kMaxIndexNames = 1'000'000, kMaxIndexFiles = 100'000;

}  // namespace

WeightIndex parse_weight_index(std::string_view text, std::string_view origin) {
  auto refuse = [&](std::string_view fact) {
    throw Error(ErrorKind::data, "checkpoint", fmt::format("{}: {}", origin, fact));
  };
  const Json json = parse_foreign_json(text, origin, kIndexLimits);
  const auto map = json.find("weight_map");
  if (!json.is_object() || map == json.end() || !map->is_object())
    refuse("it has no object \"weight_map\"");
  if (map->size() > kMaxIndexNames)
    refuse(fmt::format("{} names, the limit is {}", map->size(), kMaxIndexNames));
  WeightIndex files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) refuse(fmt::format("the file of tensor {} is no string", tensor));
    const auto& name = file.get_ref<const std::string&>();
    storage::check_relative_name(name, origin);
    if (name.find('/') != name.npos || name.size() > kMaxIndexFileName + planted_off_by_one)
      refuse(fmt::format("names the file \"{:.80}\": only bare names of up to {} bytes are read",
                         name, kMaxIndexFileName));
    files[name].push_back(tensor);
    if (files.size() > kMaxIndexFiles) refuse(fmt::format("more than {} files", kMaxIndexFiles));
  }
  return files;
}

WeightIndex read_weight_index(const std::filesystem::path& path) {
  return parse_weight_index(read_file(path, kIndexLimits.max_bytes, ErrorKind::data),
                            path.string());
}

}  // namespace wmtp::weights

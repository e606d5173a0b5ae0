#include "wmtp/exports/base_name.h"

#include <optional>

#include "wmtp/core/file.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/tracking/run_files.h"

namespace wmtp::exports {
namespace {

namespace fs = std::filesystem;

bool holds(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::exists(folder / name, ignored);
}

// The name stands for what refs/main says; another snapshot has none.
std::optional<std::string> hub_name(const fs::path& folder) {
  constexpr std::string_view kPrefix = "models--";
  const fs::path repository = folder.parent_path().parent_path();
  std::string name = repository.filename().string();
  const bool is_snapshot =
      folder.parent_path().filename() == "snapshots" && name.starts_with(kPrefix);
  if (!is_snapshot || !holds(repository, "refs/main")) return std::nullopt;
  std::string revision = read_file(repository / "refs/main", 4096);
  revision.erase(revision.find_last_not_of(" \r\n") + 1);
  if (revision != folder.filename()) return std::nullopt;
  name.erase(0, kPrefix.size());
  if (const auto dashes = name.find("--"); dashes != name.npos) name.replace(dashes, 2, "/");
  return name;
}

// The run whose folder `path` lies in; empty: none.
fs::path run_around(const fs::path& path) {
  for (fs::path folder = path; folder.has_relative_path(); folder = folder.parent_path())
    if (holds(folder, "config.yaml") && holds(folder, tracking::kEnvironmentFile)) return folder;
  return {};
}

fs::path whole(const fs::path& path) {
  fs::path absolute = fs::absolute(path).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

}  // namespace

std::string adapter_base_name(const fs::path& base, const fs::path& out) {
  if (models::is_remote(base)) return base.string();
  const fs::path from = whole(out), to = whole(base);
  if (const auto name = hub_name(to)) return *name;
  const fs::path our_run = run_around(from), its_run = run_around(to);
  const bool side_by_side =
      !our_run.empty() && !its_run.empty() && our_run.parent_path() == its_run.parent_path();
  return side_by_side ? to.lexically_relative(from).string() : to.string();
}

}  // namespace wmtp::exports

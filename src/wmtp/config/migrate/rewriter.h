// Takes the keys of an old file (or the flags of a script) one by one into a draft, and writes down
// what became of each.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/config/migrate/draft.h"
#include "wmtp/config/migrate/migration.h"
#include "wmtp/config/migrate/references.h"
#include "wmtp/config/yaml/problems.h"

namespace wmtp::config {

// One key of the old file.
struct OldEntry {
  std::string path;  // as the file has it
  std::string key;   // as if its section had our name: distributed.fsdp.x of runtime.fsdp.x
  Place place;
  Node value;
  std::string note = {};     // how its references are written now
  std::string written = {};  // the value as the file has it, where that is not `value`
};

class Rewriter {
 public:
  static constexpr int kNoSource = -2;

  // BORROWS `places`, which names the sources. What comes from the source `below` and is our
  // default anyway need not be written.
  Rewriter(const Node& old, const Problems& places, int below)
      : references_(old), places_(places), below_(below) {}

  // All keys of a map that stands at `path` in the file, and is `key` here ("" = top).
  void take_map(const Node& map, const std::string& path, const std::string& key);
  // What waits until all plain keys are there: keys whose meaning hangs on others.
  void finish();

  // One value under a key of the schema. A second one is dropped if equal, otherwise refused.
  void put(const OldEntry& entry, std::string_view key, Node value, std::string why);
  void drop(const OldEntry& entry, std::string why);
  void refuse(const OldEntry& entry, std::string why);
  // Another value for a key that may be written already, because of `entry`; leaves the record of
  // the entry itself to the caller.
  void replace(const OldEntry& entry, std::string_view key, Node value, const std::string& why);
  void record(const OldEntry& entry, Change::Action action, std::string now, std::string why);
  // A required key that the old form does not name.
  void fill_in(std::string_view key, Node value, std::string why);

  Draft& draft() { return draft_; }
  std::vector<Change>& changes() { return changes_; }
  // Comments for the end of the result: what was not migrated, with its value.
  const std::vector<std::string>& leftovers() const { return leftovers_; }
  std::string locate(Place place) const { return places_.locate(place); }

 private:
  void take(OldEntry entry);
  void take_section(const OldEntry& entry);
  void take_unknown(const OldEntry& entry);
  void settle_implied();
  void imply(const OldEntry& entry, std::string_view key, const char* value, std::string why);

  References references_;
  const Problems& places_;
  int below_;
  Draft draft_;
  std::vector<Change> changes_;
  std::vector<OldEntry> waiting_;
  std::vector<std::string> leftovers_;
  std::optional<OldEntry> implies_gae_;  // the flat key that means training.td.mode: gae
};

}  // namespace wmtp::config

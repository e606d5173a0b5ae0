// Old files and what became of their keys, as lines.
#pragma once
#include "config/config_fixture.h"
#include "wmtp/config/migrate/migration.h"

namespace wmtp::config {

class MigrateTest : public ConfigTest {
 protected:
  // An old file upon `below`.
  Migration migrate_upon(const std::string& below, const std::string& text) {
    test::write_file(dir_ / "below.yaml", below);
    test::write_file(dir_ / "old.yaml", text);
    MigrateRequest wanted{dir_ / "old.yaml", (dir_ / "below.yaml").string(), request("").env};
    return migrate_file(wanted);
  }
  // Upon the least that validates.
  Migration migrate(const std::string& text) { return migrate_upon(minimal(), text); }

  // "action key -> now" of what old.yaml has written, or what no file has.
  std::vector<std::string> changes(const Migration& migration) const {
    std::vector<std::string> lines;
    for (const Change& change : migration.changes)
      if (change.where.find("below.yaml") == std::string::npos)
        lines.push_back(std::string(name_of(change.action)) + " " + change.key + " -> " +
                        change.now);
    return lines;
  }

  // Why the one key of this name became what it is.
  static std::string reason(const Migration& migration, const std::string& key) {
    for (const Change& change : migration.changes)
      if (change.key == key) return change.why;
    return "no such key";
  }
};

}  // namespace wmtp::config

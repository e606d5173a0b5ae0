#include "wmtp/config/migrate/checked.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

#include "wmtp/config/rules/inert_keys.h"
#include "wmtp/config/tables/schema.h"

namespace wmtp::config {
namespace {

using Names = std::set<std::string, std::less<>>;

constexpr const char* kResult = "result";

// Variables without a fallback that a text names and the environment has not.
void collect_unset(const std::string& text, const Environment& env, Names& unset) {
  constexpr std::string_view kOpen = "${env:";
  for (std::size_t at = text.find(kOpen); at != text.npos; at = text.find(kOpen, at + 1)) {
    if (at > 0 && text[at - 1] == '$') continue;
    const std::string name = text.substr(at + kOpen.size(), text.find('}', at) - at - kOpen.size());
    const bool fallback = name.find(":-") != name.npos;
    if (!fallback && !(env && env(name))) unset.insert(name);
  }
}

Names unset_variables(const Node& node, const Environment& env) {
  Names unset;
  if (node.is(Node::Kind::text)) collect_unset(node.text, env, unset);
  for (const Node& item : node.items) unset.merge(unset_variables(item, env));
  return unset;
}

// A run has its environment elsewhere. What a variable may be is not judged here: a path may be
// anything, and other keys are left out of the judgement.
struct Judged {
  Draft draft;
  Names unset;
};

Judged without_unset(Draft draft, const Environment& env) {
  Judged judged{draft, {}};
  for (const std::string& key : draft.keys()) {
    Names unset = unset_variables(draft.find(key)->value, env);
    const Row& row = *schema().find(key);
    if (!unset.empty() && !row.type.path && !row.required) judged.draft.erase(key);
    judged.unset.merge(unset);
  }
  return judged;
}

ResolvedConfig load_text(const Draft::Text& text, const Names& unset, const Environment& env,
                         bool strict) {
  LoadRequest request;
  request.file = kResult;
  request.text = text.yaml;
  request.defaults = "none";
  request.check_paths = false;
  request.check_available = strict;
  request.env = [&](const std::string& name) -> std::optional<std::string> {
    if (unset.contains(name)) return "unset";
    return env ? env(name) : std::nullopt;
  };
  return load_config(request);
}

// A problem of the result, told where its line comes from.
Problem at_old_place(Problem problem, const Draft::Text& text, const Rewriter& rewriter,
                     const std::string& file) {
  const std::string prefix = std::string(kResult) + ":";
  std::size_t line = 0;
  if (problem.where.starts_with(prefix))
    std::from_chars(problem.where.data() + prefix.size(),
                    problem.where.data() + problem.where.size(), line);
  const bool known = line > 0 && line <= text.places.size() && text.places[line - 1].source >= 0;
  problem.where = known ? rewriter.locate(text.places[line - 1]) : file;
  return problem;
}

void forget(Rewriter& rewriter, const std::string& key, const std::string& why) {
  const Draft::Entry entry = *rewriter.draft().find(key);
  rewriter.draft().erase(key);
  bool found = false;
  for (Change& change : rewriter.changes()) {
    if (change.now != key && !change.now.starts_with(key + ": ")) continue;
    change.action = Change::Action::dropped;
    change.now.clear();
    change.why = why;
    found = true;
  }
  if (!found) rewriter.drop({key, key, entry.place, entry.value}, why);
}

// Whether there were keys that cannot act in this stage and mode.
bool forget_inert(Rewriter& rewriter, const Environment& env) {
  const Judged judged = without_unset(rewriter.draft(), env);
  const Config config = load_text(judged.draft.text({}, {}), judged.unset, env, false).config;
  bool any = false;
  for (const std::string& key : rewriter.draft().keys()) {
    const InertRule* rule = inert_rule(key, config);
    if (!rule || rule->switched) continue;
    forget(rewriter, key, "has no effect here: " + rule->reason(config));
    any = true;
  }
  return any;
}

}  // namespace

std::string_view name_of(Change::Action action) {
  constexpr std::string_view kNames[] = {"unchanged", "renamed",   "translated",
                                         "dropped",   "filled_in", "not_migrated"};
  return kNames[static_cast<std::size_t>(action)];
}

std::size_t Migration::count(Change::Action action) const {
  return static_cast<std::size_t>(std::ranges::count(changes, action, &Change::action));
}

Migration checked(Rewriter& rewriter, const std::vector<std::string>& head, const std::string& file,
                  const Environment& env) {
  Migration migration;
  Draft::Text text;
  try {
    while (forget_inert(rewriter, env)) {
    }
    const Judged judged = without_unset(rewriter.draft(), env);
    text = judged.draft.text({}, {});
    load_text(text, judged.unset, env, true);
    for (const std::string& name : judged.unset)
      migration.notices.push_back(
          fmt::format("the environment variable {} is not set here; a run needs it", name));
  } catch (const ConfigError& error) {
    if (text.yaml.empty()) text = without_unset(rewriter.draft(), env).draft.text({}, {});
    for (const Problem& problem : error.problems())
      migration.problems.push_back(at_old_place(problem, text, rewriter, file));
  }
  migration.changes = rewriter.changes();
  std::ranges::stable_sort(migration.changes, {}, [](const Change& change) {
    const Place& place = change.place;  // what no file says comes last
    return std::tuple(place.source < 0, place.source, place.line, place.column);
  });
  migration.yaml = rewriter.draft().text(head, rewriter.leftovers()).yaml;
  return migration;
}

}  // namespace wmtp::config

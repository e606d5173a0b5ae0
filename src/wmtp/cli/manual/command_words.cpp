#include "wmtp/cli/manual/command_words.h"

#include <algorithm>
#include <cctype>

#include "wmtp/cli/help.h"

namespace wmtp::cli {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts{""};
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool is_placeholder(const std::string& word) {
  return std::ranges::any_of(word, [](unsigned char c) { return std::isupper(c); });
}

std::vector<FlagWords> flags_of(const CLI::App& app) {
  std::vector<FlagWords> flags;
  for (const CLI::Option* option : visible_flags(app)) {
    const std::vector<std::string> names = names_of(*option);
    if (!names.empty())
      flags.push_back({names, option->get_items_expected_max() > 0, choices_of(*option)});
  }
  if (!app.get_parent()) return flags;
  const std::vector<std::string> known = flag_names(app);
  const auto is_own = [&](const std::string& name) {
    return std::ranges::any_of(flags, [&](const FlagWords& flag) {
      return std::ranges::find(flag.names, name) != flag.names.end();
    });
  };
  std::vector<FlagWords> inherited = flags_of(*app.get_parent());
  std::erase_if(inherited, [&](const FlagWords& flag) {
    return is_own(flag.names.front()) ||
           std::ranges::find(known, flag.names.front()) == known.end();
  });
  flags.insert(flags.end(), inherited.begin(), inherited.end());
  return flags;
}

std::vector<std::string> first_words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : visible_flags(app))
    if (option->get_positional()) std::ranges::copy(choices_of(*option), std::back_inserter(words));
  return words;
}

void collect(const CLI::App& app, const std::string& path, std::vector<CommandWords>& all) {
  all.push_back({path, visible_commands(app), flags_of(app), first_words_of(app)});
  for (const CLI::App* command : visible_commands(app))
    collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), all);
}

}  // namespace

std::vector<std::string> choices_of(const CLI::Option& option) {
  // CLI11 appends what its checks say: "html|json|text:{html,json,text}", "TEXT:{stop,skip}".
  const std::string whole = option.get_type_name();
  const std::string type = whole.substr(0, whole.find(':'));
  std::vector<std::string> words;
  if (type.find('|') != type.npos) {
    words = split(type, '|');
    std::erase_if(words, is_placeholder);
  } else if (const std::size_t open = whole.find(":{"); open != whole.npos) {
    words = split(whole.substr(open + 2, whole.find('}', open) - open - 2), ',');
  }
  return words;
}

std::vector<CommandWords> command_words(const CLI::App& app) {
  std::vector<CommandWords> all;
  collect(app, "", all);
  return all;
}

}  // namespace wmtp::cli

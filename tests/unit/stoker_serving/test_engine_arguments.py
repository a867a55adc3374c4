import argparse
import json

from stoker_serving.arguments import Known
from stoker_serving.engine_arguments import describe


def test_lists_every_option_string_with_its_choices():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--dtype", choices=["auto", "half"])
    parser.add_argument("--tensor-parallel-size", "-tp", type=int)
    parser.add_argument("--enforce-eager", action=argparse.BooleanOptionalAction)
    assert describe(parser, engine="vLLM 1") == {
        "engine": "vLLM 1",
        "flags": {
            "--dtype": ["auto", "half"],
            "--enforce-eager": [],
            "--no-enforce-eager": [],
            "--tensor-parallel-size": [],
            "-tp": [],
        },
    }


def test_the_list_can_be_read_back(tmp_path):
    parser = argparse.ArgumentParser()
    path = tmp_path / "list.json"
    path.write_text(json.dumps(describe(parser, engine="vLLM 1")))
    assert Known.load(path).flags == {"--help": (), "-h": ()}

"""`python -m stoker_serving ARGUMENTS`: an instance whose engine gets ARGUMENTS."""

import sys

from stoker_serving.supervisor import main

sys.exit(main())

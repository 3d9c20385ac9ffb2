"""What breaks under load: processes killed, connections cut, peers that fall silent. No wrong answer, nothing left."""

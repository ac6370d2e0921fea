module tenmap

go 1.21
